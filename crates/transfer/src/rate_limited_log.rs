//! Log lines that any client can provoke: a few at once, then one in ten seconds, with the number of those
//! that were left out. Nobody fills a disk by knocking at a door.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines at once.
const BURST: u32 = 10;

/// Between lines, when there are many.
const PAUSE: Duration = Duration::from_secs(10);

/// Log lines of one kind.
#[derive(Debug)]
pub struct RateLimitedLog(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Lines that may still be written at once.
    left: u32,
    last: Option<Instant>,
    omitted: u64,
}

impl Default for RateLimitedLog {
    fn default() -> Self {
        Self::new()
    }
}

impl RateLimitedLog {
    /// None written yet.
    pub const fn new() -> Self {
        Self(Mutex::new(State {
            left: BURST,
            last: None,
            omitted: 0,
        }))
    }

    /// Writes a warning, if it is not one of too many.
    pub fn warn(&self, text: impl FnOnce() -> String) {
        self.has_warned(text);
    }

    /// Like [`warn`](Self::warn); returns whether the warning has been written.
    pub fn has_warned(&self, text: impl FnOnce() -> String) -> bool {
        let omitted = self.admits(Instant::now());
        match omitted {
            Some(0) => tracing::warn!("{}", text()),
            Some(omitted) => tracing::warn!("{} (and {omitted} more of this kind)", text()),
            None => {}
        }
        omitted.is_some()
    }

    /// How many have been omitted since the last line, if there may be another one.
    fn admits(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let since = state.last.map_or(Duration::ZERO, |last| now - last);
        let regained = (since.as_secs() / PAUSE.as_secs()).min(u64::from(BURST)) as u32;
        if regained > 0 {
            state.left = (state.left + regained).min(BURST);
        }
        if state.left == 0 {
            state.omitted += 1;
            return None;
        }
        state.left -= 1;
        state.last = Some(now);
        Some(std::mem::take(&mut state.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_then_one_in_ten_seconds_with_the_count_of_the_rest() {
        let (lines, begin) = (RateLimitedLog::new(), Instant::now());
        let mut written = Vec::new();
        for millisecond in 0..30_000 {
            written.extend(lines.admits(begin + Duration::from_millis(millisecond)));
        }
        // Ten, and one each at 10.000 s - 0.009 s after the tenth.
        assert_eq!(written.len(), 12, "{written:?}");
        assert_eq!(written[..10], [0; 10]);
        assert!(
            written[10..].iter().all(|omitted| *omitted >= 9_990),
            "{written:?}"
        );
        // After a quiet time there is room for a few again.
        let later = begin + Duration::from_secs(3_600);
        assert!((0..10).all(|_| lines.admits(later).is_some()));
        assert!(lines.admits(later).is_none());
    }
}
