//! The traffic models.

use fairwind_path::units::{Bandwidth, Bytes, Duration};

/// The traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// As much data as the connection can carry, optionally up to a number of bytes.
    Bulk {
        /// Bytes of payload; `None` sends until the run ends.
        bytes: Option<Bytes>,
    },
    /// Sessions that fetch one object after another, each over a new connection.
    Web {
        /// Number of concurrent sessions.
        sessions: u32,
        /// Mean size of an object in bytes of payload; sizes follow a Pareto distribution.
        object_mean: Bytes,
        /// Shape of the Pareto distribution, above 1; 1.2 is usual.
        object_shape: f64,
        /// Mean think time between objects; think times are exponential.
        think_mean: Duration,
    },
    /// Datagrams at constant intervals, without acknowledgements, as over UDP.
    ConstantRate {
        /// Rate, above 0, counting IP bytes.
        rate: Bandwidth,
        /// Size of a datagram in IP bytes.
        packet: u32,
    },
    /// A TCP connection that alternates between having data, for `on`, and having none, for `off`.
    OnOff {
        /// Mean length of an on period.
        on: Duration,
        /// Mean length of an off period.
        off: Duration,
        /// Whether the lengths are exponentially distributed rather than fixed.
        random: bool,
    },
}

impl Application {
    /// Number of concurrent connections, or of streams of datagrams.
    pub fn connections(&self) -> usize {
        match self {
            Application::Web { sessions, .. } => *sessions as usize,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_web_session_has_one_connection_at_a_time() {
        let web = Application::Web {
            sessions: 7,
            object_mean: Bytes(10_000),
            object_shape: 1.2,
            think_mean: Duration::from_secs(1),
        };
        assert_eq!(web.connections(), 7);
        assert_eq!(Application::Bulk { bytes: None }.connections(), 1);
    }
}
