//! How much the path reorders (`tcp_check_sack_reordering`).

use fairwind_cc::native::TcpSock;

use crate::tcp::constants::DUPLICATE_THRESHOLD;

/// `tcp_max_reordering`, segments.
const MAX_REORDERING: u32 = 300;

/// The reordering seen so far.
#[derive(Debug)]
pub(crate) struct Reordering {
    /// How far beyond a hole data is delivered before the hole is a loss, segments (`reordering`).
    degree: u32,
}

impl Reordering {
    /// None seen.
    pub(crate) fn new() -> Self {
        Reordering {
            degree: DUPLICATE_THRESHOLD,
        }
    }

    /// How far beyond a hole data is delivered before the hole is a loss, segments.
    #[inline]
    pub(crate) fn degree(&self) -> u32 {
        self.degree
    }

    /// Whether more is expected than at first.
    #[inline]
    pub(crate) fn is_expected(&self) -> bool {
        self.degree > DUPLICATE_THRESHOLD
    }

    /// Data from `low` on was delivered late, and bytes up to `highest` before it.
    pub(crate) fn note(&mut self, tp: &mut TcpSock, low: u64, highest: u64) {
        if low >= highest {
            return;
        }
        let distance = (highest - low).div_ceil(u64::from(tp.mss_cache)) as u32;
        self.degree = self.degree.max(distance.min(MAX_REORDERING));
        tp.reord_seen += 1;
    }

    /// Expects no more than at first, as a timeout followed duplicates.
    pub(crate) fn reset(&mut self) {
        self.degree = self.degree.min(DUPLICATE_THRESHOLD);
    }
}
