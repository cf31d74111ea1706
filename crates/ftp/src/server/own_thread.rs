//! A thread for each transfer, which ends with it.
//!
//! A thread that lives on keeps what it has once freed: glibc has a cache for each (tcache), of up to seven blocks of each
//! small size, and a stack stays as large as the deepest work on it. In a pool that hands hundreds of threads around, that
//! grows until each of them has had work of every kind.

use std::io;
use std::thread::Builder;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Bytes of a thread's stack.
pub(super) const STACK: usize = 512 << 10;

/// Does blocking work in a thread of its own. If the returned future is dropped, the work goes on.
///
/// # Errors
/// If no thread can be started, or the work panics.
pub(super) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    let runtime = Handle::current();
    Builder::new()
        .name("transfer".into())
        .stack_size(STACK)
        .spawn(move || {
            let _runtime = runtime.enter();
            // Nobody may wait for it any more.
            let _ = done.send(work());
        })
        .map_err(|error| io::Error::new(error.kind(), format!("no thread for it: {error}")))?;
    result
        .await
        .map_err(|_| io::Error::other("the transfer's thread has panicked"))
}
