//! The instruments of a sender (RFC 4898).

use super::script::*;

#[test]
fn what_was_not_measured_or_has_no_limit_is_missing() {
    let s = Sending::new(&reno());
    let instruments = s.sender.instruments(ms(5));
    assert_eq!(instruments.cur_ssthresh, None);
    assert_eq!(instruments.pacing_rate, None);
    assert_eq!(instruments.smoothed_rtt_us, None);
    assert_eq!(instruments.min_rtt_us, None);
    assert_eq!(instruments.sample_rtt_us, None);
}
