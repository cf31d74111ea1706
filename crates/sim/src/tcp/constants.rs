//! Constants of `include/net/tcp.h` that both ends use.

use fairwind_path::units::Duration;

/// `TCP_TIMEOUT_INIT` (RFC 6298, section 2.1): the retransmission timeout before the first
/// measurement.
pub(super) const RTO_INITIAL: Duration = Duration::from_secs(1);
/// `TCP_RTO_MIN`.
pub(super) const RTO_MIN: Duration = Duration::from_millis(200);
/// `TCP_FASTRETRANS_THRESH`: this many duplicate acknowledgements make a loss.
pub(super) const DUPLICATE_THRESHOLD: u32 = 3;
/// `TCP_MSS_DEFAULT`, bytes.
pub(super) const MSS_DEFAULT: u32 = 536;
