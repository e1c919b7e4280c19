//! What every origin of the table begins with.

use parking_lot::Mutex;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Serves each connection on a thread of its own, until the process ends. Where, and what the threads share.
pub(super) fn each<S: Default + Send + 'static>(
    serve: fn(TcpStream, &Mutex<S>),
) -> (SocketAddr, Arc<Mutex<S>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let state: Arc<Mutex<S>> = Arc::default();
    let shared = Arc::clone(&state);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&shared);
            std::thread::spawn(move || serve(stream, &state));
        }
    });
    (address, state)
}
