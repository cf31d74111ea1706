//! Which class of packets is sent next.

/// The scheduler of a pipe. A class is an index; an index too large counts as the last class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchedulerConfig {
    /// In order of arrival; classes do not matter.
    #[default]
    Fifo,
    /// The waiting class of smallest index first. What is being sent is not interrupted.
    StrictPriority {
        /// Number of classes; at least 1.
        classes: u16,
    },
    /// Worst-case fair weighted fair queueing, WF2Q+: each class has its weight's share of the
    /// bandwidth while it has packets.
    Wf2q {
        /// The weight of each class; each at least 1.
        weights: Vec<u32>,
    },
}
