//! The progress bar on standard error, if that is a terminal.

mod bytes;

use std::collections::BTreeMap;
use std::sync::Mutex;

use fairwind_experiment::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt;
pub(crate) use bytes::ByteBar;

const STEPS: u64 = 1000;

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
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
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
