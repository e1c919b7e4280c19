//! A relay that copies bytes and looks at nothing: the limit of what the runtime and the kernel allow.

use super::on_one_thread;
use crate::arguments::ForwardOptions;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};

/// Serves until killed.
pub(crate) fn run(options: &ForwardOptions) -> anyhow::Result<()> {
    on_one_thread(async {
        let listener = TcpListener::bind(options.listen).await?;
        for upstream in options.upstream.iter().cycle() {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let upstream = *upstream;
            // A pair that breaks ends alone.
            tokio::task::spawn_local(async move { drop(copy(stream, upstream).await) });
        }
        Ok(())
    })
}

async fn copy(mut client: TcpStream, upstream: SocketAddr) -> std::io::Result<()> {
    let mut server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
