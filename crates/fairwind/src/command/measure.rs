//! `fairwind measure`: what a path has to spare, measured with data of a connection.

mod live;
mod sender;
mod sink;
mod target;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use fairwind_advice_client::{DEFAULT_URL, path_segment};
use fairwind_estimate::{Estimate, Unknown};
use fairwind_scenario::units_text;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::advise::client;
use super::trace::duration;
use crate::failure::Failure;
use crate::interrupt;
use live::Output;
use sender::{Limits, Measurement};
use target::Target;

/// A measurement ends after as many bytes, whatever its duration.
const BYTES: &str = "1GB";
const SINK: &str = "127.0.0.1:4009";

/// Measure what a path to another host has to spare
///
/// Sends data over a TCP connection to a sink: `fairwind measure --sink` there, a discard service
/// (discard://HOST), anything else that takes data and says nothing, or an FTP server with the right to
/// write: ftp://USER@HOST/DIRECTORY. There the data becomes a file, which is deleted at the end. The data leaves in trains at two rates;
/// from the delays of their acknowledgements follow the capacity of the tightest link and its
/// available bandwidth, each with the interval that holds it with a probability of 80 %, or the reason
/// why they are unknown. Trains take on average at most half of what is available, or a sixteenth of the
/// capacity if that is more.
///
/// On a terminal, a line shows the latest estimate. Otherwise, each estimate is a line of JSON. The last
/// line is the result. Ends after --duration or --bytes, or with Ctrl-C.
///
/// Needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: it loads a congestion control, for its own
/// connection, and reads the kernel's view of that. The sink needs no privileges.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind measure --sink
  fairwind measure --sink 192.0.2.7:4009
  fairwind measure 192.0.2.7
  fairwind measure discard://data.example.org --duration 30s --json
  fairwind measure ftp://alice@data.example.org/incoming
  fairwind measure 192.0.2.7 --report")]
pub(crate) struct Measure {
    /// Address or name of a sink, with a port unless it is 4009; or discard://HOST[:PORT], or
    /// ftp://USER@HOST[:PORT]/DIRECTORY
    #[arg(value_name = "HOST", required_unless_present = "sink")]
    host: Option<String>,
    /// Be a sink at this address, for others to measure the path to this host
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, default_missing_value = SINK)]
    #[arg(value_parser = sink_address)]
    #[arg(conflicts_with_all = ["host", "duration", "bytes", "json", "report", "advisor"])]
    sink: Option<SocketAddr>,
    /// How long to measure
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// Send no more than this
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = BYTES)]
    bytes: u64,
    /// Print JSON also on a terminal: one object a line
    #[arg(long)]
    json: bool,
    /// Add the result to the history of the path, at the advisor
    #[arg(long)]
    report: bool,
    /// Address of the advisor
    #[arg(long, value_name = "URL", env = "FAIRWIND_ADVISOR", default_value = DEFAULT_URL)]
    advisor: String,
}

/// An address of this host, with a port unless it is the sink's usual one.
fn sink_address(text: &str) -> Result<SocketAddr, String> {
    let with_port = || Some(SocketAddr::new(text.parse().ok()?, target::PORT));
    text.parse().ok().or_else(with_port).ok_or_else(|| {
        "an address of this host is needed, such as 192.0.2.7 or [2001:db8::7]:4009".to_owned()
    })
}

impl Measure {
    pub(crate) fn run(self) -> Result<(), Failure> {
        interrupt::catch()?;
        match (&self.sink, &self.host) {
            (Some(address), _) => sink::run(*address),
            (None, Some(host)) => self.measure(host),
            (None, None) => Err(Failure::input("a host is needed")),
        }
    }

    fn measure(&self, host: &str) -> Result<(), Failure> {
        let limits = Limits {
            duration: self.duration,
            bytes: self.bytes,
        };
        let target = Target::parse(host)?;
        // Before anything is sent: is there somebody to report to?
        let advisor = match self.report {
            true => Some(Reporter::new(&self.advisor, target.host())?),
            false => None,
        };
        let mut output = Output::new(self.json);
        let measured = target.measure(&limits, |m| output.show(m))?;
        output.finish(&measured)?;
        let estimate = match &measured.estimate {
            Ok(estimate) => estimate,
            Err(unknown) => return Err(Failure::work(nothing_known(*unknown))),
        };
        match advisor {
            Some(advisor) => advisor.report(estimate, measured.min_rtt_ms),
            None => Ok(()),
        }
    }
}

fn nothing_known(why: Unknown) -> String {
    format!("the available bandwidth is unknown: {why}")
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes =
        units_text::bytes(text).map_err(|error| format!("{}; {}", error.message, error.help))?;
    match bytes.0 {
        0 => Err("at least a byte must be sent".to_owned()),
        bytes => Ok(bytes),
    }
}

/// The path at the advisor that the result belongs to.
struct Reporter {
    client: fairwind_advice_client::Client,
    path: String,
}

impl Reporter {
    fn new(url: &str, host: &str) -> Result<Reporter, Failure> {
        let client = client(url)?;
        let path = client.advice(host, None)?.path;
        let path = path.ok_or_else(|| Failure::input(format!("no path leads to {host}")))?;
        Ok(Reporter { client, path })
    }

    fn report(&self, estimate: &Estimate, rtt_ms: Option<f64>) -> Result<(), Failure> {
        let sample = json!([{
            "time": Timestamp::now(),
            "available_mbps": estimate.available.value / 1e6,
            "rtt_ms": rtt_ms,
            "source": "fairwind measure",
        }]);
        let at = format!("/v1/paths/{}/samples", path_segment(&self.path));
        let answer: Value = self.client.post(&at, &sample)?;
        match answer["accepted"].as_u64() {
            Some(1) => Ok(()),
            _ => Err(Failure::work(format!(
                "the advisor refused the result: {answer}"
            ))),
        }
    }
}

/// The fields of an estimate in JSON.
fn fields(measurement: &Measurement) -> Value {
    let mbps = |bps: f64| (bps / 1e3).round() / 1e3;
    let mut object = json!({
        "seconds": (measurement.seconds * 1e3).round() / 1e3,
        "bytes": measurement.bytes,
        "trains": measurement.trains,
        "rtt_ms": measurement.rtt_ms,
        "min_rtt_ms": measurement.min_rtt_ms,
    });
    match &measurement.estimate {
        Ok(Estimate {
            available,
            capacity,
            is_policed,
            ..
        }) => {
            object["available_mbps"] = mbps(available.value).into();
            object["available_interval_mbps"] = json!([mbps(available.low), mbps(available.high)]);
            object["capacity_mbps"] = mbps(capacity.value).into();
            object["capacity_interval_mbps"] = json!([mbps(capacity.low), mbps(capacity.high)]);
            if *is_policed {
                object["policed"] = true.into();
            }
        }
        Err(unknown) => object["unknown"] = unknown.to_string().into(),
    }
    object
}
