//! Calls as rows of numbers that mostly equal those of the row above: a window is stored as its
//! difference from what the previous call left, and a column that a hook does not use repeats its value.

use crate::call::{Call, Hook, Inputs, Window};

pub(crate) type Row = [i64; 30];

/// The hook's number and the columns of its arguments.
#[derive(Clone, Copy, Default)]
struct Arguments {
    hook: i64,
    /// The arguments of `pkts_acked`.
    pkts_acked: i64,
    rtt_us: i64,
    in_flight: i64,
    /// The arguments of `cong_avoid`; `ack` is relative to `snd_una`.
    ack: i64,
    acked: i64,
    /// The only number of the other hooks.
    value: i64,
}

pub(crate) fn from_calls(calls: &[Call]) -> Vec<Row> {
    let mut left = Window::default();
    let mut arguments = Arguments::default();
    let row = |call: &Call| {
        arguments = arguments.with(call);
        let row = to_row(call, left, arguments);
        left = call.after;
        row
    };
    calls.iter().map(row).collect()
}

/// `None` if a number is out of range.
pub(crate) fn to_calls(rows: &[Row]) -> Option<Vec<Call>> {
    let mut left = Window::default();
    let call = |row: &Row| {
        let call = from_row(row, left)?;
        left = call.after;
        Some(call)
    };
    rows.iter().map(call).collect()
}

impl Arguments {
    fn with(self, call: &Call) -> Arguments {
        let one = |hook, value| Arguments {
            hook,
            value,
            ..self
        };
        match call.hook {
            Hook::Init => one(0, self.value),
            Hook::PktsAcked(sample) => Arguments {
                hook: 1,
                pkts_acked: sample.pkts_acked.into(),
                rtt_us: sample.rtt_us.into(),
                in_flight: sample.in_flight.into(),
                ..self
            },
            Hook::CongAvoid { ack, acked } => Arguments {
                hook: 2,
                ack: beyond(ack, call.inputs.snd_una),
                acked: acked.into(),
                ..self
            },
            Hook::Ssthresh { returned } => one(3, returned.into()),
            Hook::UndoCwnd { returned } => one(4, returned.into()),
            Hook::SetState(state) => one(5, state.into()),
            Hook::CwndEvent(event) => one(6, event.into()),
        }
    }
}

fn to_row(call: &Call, left: Window, arguments: Arguments) -> Row {
    let inputs = &call.inputs;
    [
        arguments.hook,
        arguments.pkts_acked,
        arguments.rtt_us,
        arguments.in_flight,
        arguments.ack,
        arguments.acked,
        arguments.value,
        beyond(call.before.cwnd, left.cwnd),
        beyond(call.before.cwnd_cnt, left.cwnd_cnt),
        beyond(call.before.ssthresh, left.ssthresh),
        beyond(call.after.cwnd, call.before.cwnd),
        beyond(call.after.cwnd_cnt, call.before.cwnd_cnt),
        beyond(call.after.ssthresh, call.before.ssthresh),
        call.tcp_mstamp as i64,
        call.jiffies.into(),
        call.ticks.into(),
        call.sk_pacing_rate as i64,
        inputs.sk_pacing_status.into(),
        inputs.sk_gso_max_size.into(),
        inputs.icsk_ca_state.into(),
        inputs.is_cwnd_limited.into(),
        inputs.snd_cwnd_clamp.into(),
        inputs.prior_cwnd.into(),
        inputs.max_packets_out.into(),
        inputs.snd_una.into(),
        beyond(inputs.snd_nxt, inputs.snd_una),
        beyond(inputs.high_seq, inputs.snd_una),
        beyond(inputs.lsndtime, call.jiffies),
        inputs.retrans_out.into(),
        inputs.lost.into(),
    ]
}

fn from_row(row: &Row, left: Window) -> Option<Call> {
    let number = |column: usize| u32::try_from(row[column]).ok();
    let above = |column: usize, base: u32| base.wrapping_add(row[column] as u32);
    let before = Window {
        cwnd: above(7, left.cwnd),
        cwnd_cnt: above(8, left.cwnd_cnt),
        ssthresh: above(9, left.ssthresh),
    };
    let after = Window {
        cwnd: above(10, before.cwnd),
        cwnd_cnt: above(11, before.cwnd_cnt),
        ssthresh: above(12, before.ssthresh),
    };
    let (jiffies, snd_una) = (number(14)?, number(24)?);
    Some(Call {
        hook: to_hook(row, snd_una)?,
        before,
        after,
        tcp_mstamp: row[13] as u64,
        jiffies,
        ticks: number(15)?,
        sk_pacing_rate: row[16] as u64,
        inputs: Inputs {
            sk_pacing_status: number(17)?,
            sk_gso_max_size: number(18)?,
            icsk_ca_state: u8::try_from(row[19]).ok()?.into(),
            is_cwnd_limited: number(20)?,
            snd_cwnd_clamp: number(21)?,
            prior_cwnd: number(22)?,
            max_packets_out: number(23)?,
            snd_una,
            snd_nxt: above(25, snd_una),
            high_seq: above(26, snd_una),
            lsndtime: above(27, jiffies),
            retrans_out: number(28)?,
            lost: number(29)?,
        },
    })
}

fn to_hook(row: &Row, snd_una: u32) -> Option<Hook> {
    let number = |column: usize| u32::try_from(row[column]).ok();
    let arguments = match row[0] {
        0 => [0; 3],
        1 => [number(1)?, i32::try_from(row[2]).ok()? as u32, number(3)?],
        2 => [snd_una.wrapping_add(row[4] as u32), number(5)?, 0],
        _ => [number(6)?, 0, 0],
    };
    Hook::from_numbers(number(0)?, arguments)
}

/// The signed distance of a 32-bit number, which may have wrapped, from another.
fn beyond(number: u32, base: u32) -> i64 {
    i64::from(number.wrapping_sub(base) as i32)
}

#[cfg(test)]
pub(crate) mod tests {
    use fairwind_cc::native::AckSample;

    use super::*;

    /// A call of each hook, with numbers close to a wrap or to another number.
    pub(crate) fn calls() -> Vec<Call> {
        let window = |cwnd, cwnd_cnt, ssthresh| Window {
            cwnd,
            cwnd_cnt,
            ssthresh,
        };
        let sample = AckSample {
            pkts_acked: 2,
            rtt_us: -1,
            in_flight: 2896,
        };
        let hooks = [
            Hook::Init,
            Hook::PktsAcked(sample),
            Hook::CongAvoid {
                ack: 1000,
                acked: 2,
            },
            Hook::Ssthresh { returned: 7 },
            Hook::SetState(4),
            Hook::CwndEvent(3),
            Hook::UndoCwnd { returned: 12 },
        ];
        let call = |(n, hook)| Call {
            hook,
            before: window(10, 0, 0x7fff_ffff),
            after: window(10 + n, n / 2, 0x7fff_ffff - n),
            tcp_mstamp: 1 << 40,
            jiffies: (u32::MAX - 2).wrapping_add(n),
            ticks: n / 6,
            sk_pacing_rate: u64::MAX,
            inputs: Inputs {
                sk_pacing_status: 1,
                sk_gso_max_size: 65_215,
                icsk_ca_state: 4,
                is_cwnd_limited: 1,
                snd_cwnd_clamp: u32::MAX,
                prior_cwnd: 12,
                max_packets_out: 10,
                snd_una: u32::MAX - 500,
                snd_nxt: 9000,
                high_seq: u32::MAX - 600,
                lsndtime: u32::MAX - 3,
                retrans_out: 3,
                lost: 1,
            },
        };
        (0..).zip(hooks).map(call).collect()
    }

    #[test]
    fn calls_come_back() {
        assert_eq!(to_calls(&from_calls(&calls())), Some(calls()));
    }

    #[test]
    fn a_number_out_of_range_is_refused() {
        for (column, number) in [(0, 7), (1, -1), (19, 256), (24, 1 << 32)] {
            let mut rows = from_calls(&calls());
            rows[1][column] = number;
            assert_eq!(to_calls(&rows), None, "column {column}");
        }
    }
}
