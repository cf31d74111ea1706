//! Verifies that the Rust structures match those of `cc/include/fairwind/native.h`.

use std::ffi::{CStr, c_char};
use std::mem::{offset_of, size_of};

use super::control::Control;
use super::parameter::Parameter;
use super::shared;
use super::socket::{AckSample, RateSample, TcpSock};
use crate::advised::AdvisedStart;

#[repr(C)]
struct Field {
    name: *const c_char,
    offset: usize,
    size: usize,
}

unsafe extern "C" {
    static fairwind_cc_layout: [Field; 0];
}

type Row = (String, usize, usize);

/// The layout in C, from layout.c.
fn in_c() -> Vec<Row> {
    let mut rows = Vec::new();
    // SAFETY: the table ends with a row without a name, and names are string literals.
    unsafe {
        let mut row = fairwind_cc_layout.as_ptr();
        while !(*row).name.is_null() {
            let name = CStr::from_ptr((*row).name).to_str().unwrap();
            rows.push((name.to_owned(), (*row).offset, (*row).size));
            row = row.add(1);
        }
    }
    rows
}

fn size_of_field<T, F>(_: impl Fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! rows {
    ($type:ident, $prefix:literal, $($field:ident)*) => {
        vec![$((
            format!(concat!($prefix, "{}"), stringify!($field)),
            offset_of!($type, $field),
            size_of_field(|value: &$type| &value.$field),
        )),*]
    };
}

/// The layout in Rust. The patterns without `..` make sure that no field is left out.
fn in_rust() -> Vec<Row> {
    macro_rules! all_fields {
        ($type:ident, $prefix:literal, $($field:ident)*) => {{
            let _no_other_field = |value: $type| {
                let $type { $($field: _),* } = value;
            };
            rows!($type, $prefix, $($field)*)
        }};
    }
    let mut rows = all_fields!(TcpSock, "",
        sk_pacing_rate sk_max_pacing_rate sk_pacing_status hz now_ns jiffies parameters
        sk_gso_max_size cc_shared cc_advised icsk_ca_state icsk_retransmits icsk_ca_priv snd_cwnd snd_cwnd_cnt
        snd_cwnd_stamp snd_ssthresh snd_cwnd_clamp snd_cwnd_used prior_cwnd prr_delivered prr_out
        max_packets_out cwnd_usage_seq packets_out sacked_out lost_out retrans_out srtt_us mdev_us
        rttvar_us rtt_min_us delivered delivered_ce lost app_limited snd_una snd_nxt write_seq high_seq
        mss_cache snd_wnd lsndtime is_cwnd_limited rcv_tsval reord_seen bytes_acked tcp_mstamp
        first_tx_mstamp delivered_mstamp rate_delivered rate_interval_us);
    rows.extend(all_fields!(RateSample, "rs.",
        prior_mstamp prior_delivered prior_delivered_ce delivered delivered_ce interval_us
        snd_interval_us rcv_interval_us rtt_us losses acked_sacked prior_in_flight last_end_seq
        is_app_limited is_retrans is_ack_delayed));
    rows.extend(all_fields!(AckSample, "ack.", pkts_acked rtt_us in_flight));
    rows.push(("CC_SHARED_SIZE".to_owned(), 0, size_of::<shared::State>()));
    let mut structure = |name: &str, size: usize| rows.push((format!("struct {name}"), 0, size));
    structure("advised_start", size_of::<AdvisedStart>());
    structure("tcp_sock", size_of::<TcpSock>());
    structure("rate_sample", size_of::<RateSample>());
    structure("ack_sample", size_of::<AckSample>());
    structure("cc_parameter", size_of::<Parameter>());
    structure("tcp_congestion_ops", size_of::<Control>());
    rows
}

#[test]
fn rust_and_c_lay_out_the_same_structures() {
    assert_eq!(in_rust(), in_c());
}
