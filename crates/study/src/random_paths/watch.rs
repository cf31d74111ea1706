//! What a run shows while it goes on, kept in memory.

use fairwind_result::record::{FlowSample, LinkSample, Recorder};

/// A sample of the flow that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moment {
    pub seconds: f64,
    /// Payload received so far, bytes.
    pub received: f64,
    /// What it may send in a round trip, by window and by pacing, packets.
    pub window: f64,
}

/// A run as it went.
#[derive(Clone, Debug)]
pub(super) struct Watch {
    mss: f64,
    pub own: Vec<Moment>,
    /// Of the flow in the foreground: seconds, and payload received so far, bytes.
    pub foreground: Vec<(f64, f64)>,
    /// What has come to the link so far: seconds, and bytes.
    pub arrived: Vec<(f64, f64)>,
    /// Largest window, packets.
    pub largest_window: f64,
}

impl Watch {
    /// Nothing yet, of flows with segments of this payload, bytes.
    pub(super) fn new(mss: f64) -> Watch {
        Watch {
            mss,
            own: Vec::new(),
            foreground: Vec::new(),
            arrived: Vec::new(),
            largest_window: 0.0,
        }
    }
}

impl Recorder for Watch {
    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        let seconds = sample.time_ns as f64 / 1e9;
        let values = &sample.instruments;
        let received = values.bytes_received as f64;
        match flow {
            0 => {
                let by_window = values.cur_cwnd as f64 / self.mss;
                let rtt = values.smoothed_rtt_us.map(|us| f64::from(us) / 1e6);
                let paced = values.pacing_rate.filter(|rate| *rate > 0).zip(rtt);
                let by_pacing =
                    paced.map_or(f64::INFINITY, |(rate, rtt)| rate as f64 * rtt / self.mss);
                self.largest_window = self.largest_window.max(by_window);
                self.own.push(Moment {
                    seconds,
                    received,
                    window: by_window.min(by_pacing),
                });
            }
            1 => self.foreground.push((seconds, received)),
            _ => {}
        }
    }

    fn link(&mut self, link: usize, sample: &LinkSample) {
        if link == 0 {
            let bytes = sample.bytes + sample.queue_bytes + sample.drops * 1500;
            self.arrived
                .push((sample.time_ns as f64 / 1e9, bytes as f64));
        }
    }
}
