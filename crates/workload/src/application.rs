//! The kinds of traffic.

use fairwind_path::units::{Bandwidth, Bytes, Duration};

/// The traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// As much as the connection takes, or so many bytes of payload.
    Bulk {
        /// Bytes of payload, or nothing: until the run ends.
        bytes: Option<Bytes>,
    },
    /// Sessions that fetch objects one after the other, each over a connection of its own.
    Web {
        /// Sessions at the same time.
        sessions: u32,
        /// Mean size of an object, bytes of payload; sizes follow a Pareto distribution.
        object_mean: Bytes,
        /// Shape of the Pareto distribution, above 1; 1.2 is usual.
        object_shape: f64,
        /// Mean think time between objects; think times are exponential.
        think_mean: Duration,
    },
    /// Datagrams at even intervals, without acknowledgements, as UDP sends them.
    ConstantRate {
        /// Rate of IP bytes, above 0.
        rate: Bandwidth,
        /// Size of a datagram, IP bytes.
        packet: u32,
    },
    /// A TCP connection that has data for `on` and none for `off`, in turns.
    OnOff {
        /// Mean length of an on period.
        on: Duration,
        /// Mean length of an off period.
        off: Duration,
        /// Exponential lengths rather than fixed ones.
        random: bool,
    },
}

impl Application {
    /// How many connections it has at a time, or streams of datagrams.
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
