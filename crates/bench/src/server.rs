//! The programs around the proxies: one origin, and two reference proxies that do nothing a mesh does.

pub(crate) mod hyper_proxy;
pub(crate) mod origin;
pub(crate) mod relay;

use hyper::rt::Executor;

/// The body of a large answer.
pub(crate) static LARGE: &[u8] = &[b'x'; 1 << 20];

/// Spawns hyper's tasks on the current thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local;

impl<F> Executor<F> for Local
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// Runs `future` on a runtime of one thread.
pub(crate) fn on_one_thread(
    future: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}
