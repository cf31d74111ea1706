//! The progress bars of runs and of transfers, on standard error if that is a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairwind_experiment::Progress;
use fairwind_ftp::client;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::interrupt;

const STEPS: u64 = 1000;

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// One bar for the share of all runs that is done.
pub(crate) struct Bar {
    bar: ProgressBar,
    runs: usize,
    done: Mutex<BTreeMap<u64, f64>>,
}

impl Bar {
    /// A bar for `runs` runs; `indicatif` hides it unless standard error is a terminal.
    pub(crate) fn new(runs: usize) -> Self {
        let bar = ProgressBar::new(STEPS);
        bar.set_style(style("{bar:40} {percent:>3} %  {msg}  {eta} left"));
        bar.set_message(match runs {
            1 => "1 run".to_owned(),
            n => format!("{n} runs"),
        });
        Self {
            bar,
            runs,
            done: Mutex::default(),
        }
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn run(&self, seed: u64, share: f64) -> bool {
        if let Ok(mut runs) = self.done.lock() {
            runs.insert(seed, share.clamp(0.0, 1.0));
            let done = runs.values().sum::<f64>() / self.runs.max(1) as f64;
            self.bar.set_position((done * STEPS as f64) as u64);
        }
        !interrupt::asked()
    }
}

/// Bytes of all files in one bar, with rate and time left.
pub(crate) struct ByteBar {
    bar: ProgressBar,
    at: Mutex<At>,
}

/// How far the files are.
#[derive(Default)]
struct At {
    each: BTreeMap<usize, u64>,
    all: u64,
}

impl ByteBar {
    /// An empty bar; `indicatif` hides it unless standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = style(
            "{bar:40} {percent:>3} %  {decimal_bytes} of {decimal_total_bytes}  {rate}  {eta} left",
        );
        let rate = |state: &ProgressState, text: &mut dyn Write| {
            // Writing to memory cannot fail.
            let _ = write!(text, "{:.1} Mbit/s", state.per_sec() * 8.0 / 1e6);
        };
        bar.set_style(style.with_key("rate", rate));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self {
            bar,
            at: Mutex::default(),
        }
    }

    /// Removes the bar from the screen.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn set(&self, file: usize, at: u64) {
        let mut now = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        let before = now.each.insert(file, at).unwrap_or_default();
        now.all = now.all + at - before;
        self.bar.set_position(now.all);
    }
}

impl client::Progress for ByteBar {
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
