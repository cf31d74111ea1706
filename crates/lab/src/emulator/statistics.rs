//! Statistics of the emulator.

use fairwind_path::pipe::PipeStatistics;
use fairwind_path::units::Time;

use super::capture::CaptureCounts;
use super::lateness::Lateness;

/// A pipe of the network at the end of a run.
#[derive(Clone, Debug)]
pub struct NamedPipe {
    /// Its name.
    pub name: String,
    /// Its statistics.
    pub statistics: PipeStatistics,
}

/// Packets lost by the lab rather than by the network that it emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabLosses {
    /// Dropped by a host's device because the emulator did not read them in time.
    pub device_drops: u64,
    /// Dropped because more were in flight than the emulator has memory for.
    pub no_memory: u64,
    /// For an address that no host has or no pipe leads to, or not IPv4, or malformed.
    pub unroutable: u64,
    /// Refused by their destination host's device.
    pub undelivered: u64,
}

/// The state of a pipe at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeSample {
    /// The pipe's position in the order of addition.
    pub pipe: usize,
    /// Time since the network's start.
    pub time: Time,
    /// Packets waiting or being transmitted.
    pub queue_packets: u64,
    /// Their IP bytes.
    pub queue_bytes: u64,
    /// Packets dropped or lost since the start.
    pub drops: u64,
    /// IP bytes that have left since the start.
    pub bytes: u64,
}

/// Counts of a flow's data packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Sent: datagrams, and segments with payload.
    pub packets: u64,
    /// Those of them that a pipe dropped or lost.
    pub lost: u64,
    /// Payload bytes of the UDP datagrams that arrived, in both directions.
    pub datagram_bytes: u64,
}

/// Statistics of a run. Those of pipes and flows begin at the end of the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// All pipes in the order in which they were added.
    pub pipes: Vec<NamedPipe>,
    /// All flows in the order in which they were added.
    pub flows: Vec<FlowCounts>,
    /// Samples of pipes that were still in the channel.
    pub samples: Vec<PipeSample>,
    /// Samples dropped because the channel was full.
    pub samples_lost: u64,
    /// The captures, in the order in which they were requested.
    pub captures: Vec<CaptureCounts>,
    /// How late packets reached their destination hosts. None is delivered early.
    pub lateness: Lateness,
    /// Packets lost by the lab itself.
    pub mishaps: LabLosses,
    /// Why the devices' drop counters could not be read, if so; the drops are then unknown.
    pub unread: Option<String>,
}

impl LabLosses {
    /// The sum of both.
    pub fn plus(self, other: LabLosses) -> LabLosses {
        LabLosses {
            device_drops: self.device_drops + other.device_drops,
            no_memory: self.no_memory + other.no_memory,
            unroutable: self.unroutable + other.unroutable,
            undelivered: self.undelivered + other.undelivered,
        }
    }
}

impl Statistics {
    /// A sentence for each reason not to trust the run: the emulator fell behind or lost packets.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let p99_us = self.lateness.quantile(0.99).as_micros();
        if p99_us > 1_000 {
            warnings.push(format!(
                "the emulator fell behind: 1 % of the packets left more than {p99_us} us late"
            ));
        }
        let lost = [
            (
                self.mishaps.device_drops,
                "the emulator was too slow to read them",
            ),
            (
                self.mishaps.no_memory,
                "the emulator had no memory for them",
            ),
        ];
        for (packets, reason) in lost.into_iter().filter(|(packets, _)| *packets > 0) {
            warnings.push(format!(
                "{packets} packets were lost outside the network: {reason}"
            ));
        }
        if let Some(reason) = &self.unread {
            warnings.push(format!(
                "it is not known whether the emulator was too slow to read packets: {reason}"
            ));
        }
        if self.samples_lost > 0 {
            warnings.push(format!(
                "{} samples of queues are missing: they were not taken in time",
                self.samples_lost
            ));
        }
        warnings.extend(self.captures.iter().filter_map(CaptureCounts::warning));
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairwind_path::units::Duration;

    #[test]
    fn a_run_that_can_be_trusted_has_no_warnings() {
        let mut statistics = Statistics::default();
        statistics.lateness.add(Duration::from_micros(50));
        statistics.mishaps.unroutable = 3;
        assert_eq!(statistics.warnings(), Vec::<String>::new());
    }

    #[test]
    fn counters_that_could_not_be_read_are_a_warning() {
        let statistics = Statistics {
            unread: Some("reading /proc: no such file".to_owned()),
            ..Statistics::default()
        };
        let warnings = statistics.warnings();
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].ends_with("too slow to read packets: reading /proc: no such file"));
    }

    #[test]
    fn an_emulator_that_fell_behind_says_so() {
        let mut statistics = Statistics::default();
        statistics.lateness.add(Duration::from_millis(2));
        statistics.mishaps.device_drops = 4;
        assert_eq!(
            statistics.warnings(),
            [
                "the emulator fell behind: 1 % of the packets left more than 2000 us late",
                "4 packets were lost outside the network: the emulator was too slow to read them",
            ]
        );
    }
}
