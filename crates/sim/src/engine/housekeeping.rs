//! Scheduled work: the end of the warm-up, changes of congestion control, samples and progress.

use fairwind_path::units::{Duration, Time};

use super::Engine;
use crate::outcome::{Instruments, Observer};
use crate::scenario::{FlowConfig, Sampling};

impl Engine<'_> {
    /// Ends the warm-up, changes congestion controls, samples, reports progress. False stops the run.
    pub(super) fn on_schedule(&mut self, now: Time, observer: &mut dyn Observer) -> bool {
        if now == self.measuring_from && now > Time::ZERO {
            self.end_warmup(now);
        }
        while let Some((_, flow)) = self.switches.pop_if(|(at, _)| *at <= now) {
            self.switch_control(now, flow);
        }
        if now >= self.next_sample {
            self.sample(now, observer);
        }
        let mut go_on = true;
        if now >= self.next_progress {
            go_on = observer.progress(now);
            self.next_progress = now + self.progress_step;
        }
        let mut next = self.next_sample.min(self.next_progress).min(self.end);
        if now < self.measuring_from {
            next = next.min(self.measuring_from);
        }
        if let Some((at, _)) = self.switches.last() {
            next = next.min(*at);
        }
        let over = now == self.end;
        if !over {
            self.network.agenda.arm(self.housekeeping, next);
        }
        self.network.set_barrier(next);
        go_on
    }

    /// Switches the flow's open connections to the congestion control now in force; later
    /// connections start with it.
    fn switch_control(&mut self, now: Time, flow: usize) {
        let parameters = self.scenario.flows[flow].tcp.parameters_at(now);
        for connection in &mut self.connections {
            if connection.flow as usize != flow {
                continue;
            }
            if let Some((sender, _)) = &mut connection.ends {
                sender.switch_control(now, parameters);
            }
        }
    }

    fn end_warmup(&mut self, now: Time) {
        self.network.reset_statistics(now);
        self.network.lost.fill(0);
        for totals in &mut self.totals {
            totals.restart();
        }
        for connection in &mut self.connections {
            if let Some((sender, _)) = &mut connection.ends {
                connection.before = sender.statistics();
                sender.reset_rtt_statistics();
            }
        }
    }

    fn sample(&mut self, now: Time, observer: &mut dyn Observer) {
        for (index, sample) in self.network.samples(now).enumerate() {
            observer.pipe(index, now, &sample);
        }
        let interval = match self.scenario.sampling {
            Sampling::Off => return,
            Sampling::EveryAck(interval) => interval,
            Sampling::Every(interval) => {
                for index in 0..self.connections.len() {
                    self.show_flow(now, index, observer);
                }
                interval
            }
        };
        self.next_sample = now + interval.max(Duration::from_nanos(1));
    }

    /// Shows the instruments of a connection; while it is closed, only the bytes it has received.
    pub(super) fn show_flow(&self, now: Time, index: usize, observer: &mut dyn Observer) {
        let connection = &self.connections[index];
        let mut instruments = Instruments {
            // The series have 0 for a closed connection, not a missing value.
            cur_ssthresh: Some(0),
            pacing_rate: Some(0),
            bytes_received: connection.received_before,
            ..Instruments::default()
        };
        if let Some((sender, receiver)) = &connection.ends {
            instruments = sender.instruments(now);
            instruments.bytes_received = connection.received_before + receiver.delivered();
            instruments.cur_receive_buffer = receiver.buffer_bytes();
        } else if now < self.flow(index).start {
            return;
        }
        observer.flow(
            connection.flow as usize,
            connection.index as usize,
            now,
            &instruments,
        );
        if let Some((sender, _)) = &connection.ends {
            observer.socket(
                connection.flow as usize,
                connection.index as usize,
                now,
                sender.tp(),
            );
        }
    }
}

/// Changes of congestion control as (time, flow), the earliest last.
pub(super) fn switches(flows: &[FlowConfig]) -> Vec<(Time, usize)> {
    let of_flow = |(index, flow): (usize, &FlowConfig)| {
        let times = flow.tcp.switches.iter().map(move |s| (s.at, index));
        times.collect::<Vec<_>>()
    };
    let mut all: Vec<_> = flows.iter().enumerate().flat_map(of_flow).collect();
    all.sort_unstable_by(|one, other| other.cmp(one));
    all
}
