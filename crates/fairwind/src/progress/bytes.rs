//! The progress of transfers.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairwind_ftp::client::Progress;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::interrupt;

/// Bytes of all files in one bar, with rate and time left.
pub(crate) struct ByteBar {
    bar: ProgressBar,
    files: Mutex<BTreeMap<usize, u64>>,
}

impl ByteBar {
    /// An empty bar; `indicatif` hides it unless standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template(
            "{bar:40} {percent:>3} %  {decimal_bytes} of {decimal_total_bytes}  {rate}  {eta} left",
        );
        let rate = |state: &ProgressState, text: &mut dyn Write| {
            // Writing to memory cannot fail.
            let _ = write!(text, "{:.1} Mbit/s", state.per_sec() * 8.0 / 1e6);
        };
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("rate", rate));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            files: Mutex::default(),
        }
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn set(&self, file: usize, at: u64) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(file, at);
        self.bar.set_position(files.values().sum());
    }
}

impl Progress for ByteBar {
    fn expect(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    fn begins(&self, file: usize, at: u64) {
        self.set(file, at);
        if at > 0 {
            // Bytes of an earlier attempt say nothing about the rate.
            self.bar.reset_eta();
        }
    }

    fn reaches(&self, file: usize, at: u64) {
        self.set(file, at);
    }

    fn note(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    fn stopped(&self) -> bool {
        interrupt::asked()
    }

    fn stop_signal(&self) -> Option<BorrowedFd<'_>> {
        interrupt::bell()
    }
}
