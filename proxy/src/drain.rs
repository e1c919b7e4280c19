//! The end of the process, announced: one signal that everything that serves listens to.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Announces that the process is about to end. Cheap to clone; all clones are one signal.
#[derive(Clone, Debug)]
pub struct Signal {
    grace: Arc<watch::Sender<Option<Duration>>>,
}

impl Default for Signal {
    fn default() -> Self {
        Self { grace: Arc::new(watch::Sender::new(None)) }
    }
}

impl Signal {
    /// Starts the drain: what is in flight has `grace` to finish. Only the first call counts.
    pub fn start(&self, grace: Duration) {
        self.grace.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(grace);
            }
            first
        });
    }

    /// Whether the drain has started.
    pub fn started(&self) -> bool {
        self.grace.borrow().is_some()
    }

    /// Waits for the drain to start and returns its grace period.
    pub async fn wait(&self) -> Duration {
        let mut receiver = self.grace.subscribe();
        loop {
            let grace = *receiver.borrow_and_update();
            if let Some(grace) = grace {
                return grace;
            }
            if receiver.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}
