//! The messages that libbpf would print to standard error. It has one printer for the whole process, which
//! these functions replace.

use std::cell::RefCell;

use libbpf_rs::{PrintLevel, set_print};

thread_local! {
    /// What libbpf has said on this thread since [`collect`].
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Collects the warnings of libbpf from now on, on each thread its own, for [`take`].
pub fn collect() {
    MESSAGES.take();
    set_print(Some((PrintLevel::Warn, |_, message| {
        MESSAGES.with_borrow_mut(|messages| messages.push_str(&message));
    })));
}

/// The warnings on this thread since [`collect`] or the last call.
pub fn take() -> String {
    MESSAGES.take()
}

/// Drops what libbpf says while `run` runs.
pub fn discarded<T>(run: impl FnOnce() -> T) -> T {
    let before = set_print(None);
    let value = run();
    set_print(before);
    value
}
