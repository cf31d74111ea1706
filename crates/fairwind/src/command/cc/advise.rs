//! `fairwind cc advise`.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::{AdvisedStarts, Destination};
use fairwind_kernel::monotonic_ns;
use fairwind_scenario::units_text;
use serde_json::{Value, json};

use super::place::Place;
use crate::command::trace::value;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Advise new connections of the path to a destination, or show what they are advised
///
/// A connection to the longest prefix that fits starts by Careful Resume (RFC 9959): it confirms the path with its
/// first window, and jumps to at most a fifth of what is promised. It must have one of the loaded congestion controls
/// that take advice.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind cc advise 192.0.2.0/24 --rate 800Mbit/s --rtt 100ms --for 10min
  fairwind cc advise 192.0.2.0/24 --withdraw
  fairwind cc advise")]
pub(crate) struct Advise {
    /// The destination: an address, or a prefix such as 192.0.2.0/24 or 2001:db8::/32
    #[arg(value_name = "PREFIX", value_parser = prefix, requires = "what")]
    to: Option<(IpAddr, u32)>,
    #[command(flatten)]
    what: What,
    /// For connections from this network namespace; default: this process'
    #[arg(long, value_name = "INODE|FILE", value_parser = value::namespace, default_value = "/proc/self/ns/net")]
    netns: u32,
    /// Print JSON and nothing else
    #[arg(long, conflicts_with = "to")]
    json: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
#[group(id = "what", required = false, multiple = true)]
struct What {
    /// The rate that is promised, packets' headers included: the low edge of a forecast
    #[arg(long, value_name = "RATE", value_parser = rate, requires_all = ["to", "rtt", "lifetime"])]
    rate: Option<u64>,
    /// The minimum round-trip time of the path
    #[arg(long, value_name = "TIME", value_parser = value::duration, requires = "rate")]
    rtt: Option<Duration>,
    /// How long the advice holds
    #[arg(long = "for", id = "lifetime", value_name = "TIME", value_parser = value::duration, requires = "rate")]
    lifetime: Option<Duration>,
    /// Withdraw what is advised of exactly this prefix
    #[arg(long, requires = "to", conflicts_with = "rate")]
    withdraw: bool,
}

impl Advise {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let advised = self.place.pins().advised_starts().map_err(Failure::work)?;
        let advised = advised.ok_or_else(|| {
            Failure::work(
                "no congestion control is loaded that takes advice (fairwind cc load cubic)",
            )
        })?;
        let Some((address, bits)) = self.to else {
            return self.show(&advised);
        };
        let to = Destination::new(self.netns, address, bits)
            .ok_or_else(|| Failure::input(format!("{address} has no {bits} bits")))?;
        if self.what.withdraw {
            return match advised.withdraw(&to).map_err(Failure::work)? {
                true => Ok(()),
                false => Err(Failure::work(format!(
                    "nothing is advised of {}",
                    to.prefix()
                ))),
            };
        }
        let start = self.what.start()?;
        advised.advise(&to, &start).map_err(Failure::work)
    }

    fn show(&self, advised: &AdvisedStarts) -> Result<(), Failure> {
        let all = advised.destinations().map_err(Failure::work)?;
        let now = monotonic_ns();
        if self.json {
            let all: Vec<Value> = all
                .iter()
                .map(|(to, start)| object(to, start, now))
                .collect();
            return Ok(output::json(&Value::Array(all))?);
        }
        let mut table = Table::new("destination | >namespace | >Mbit/s | >rtt, ms | >holds for, s");
        for (to, start) in all {
            table.row([
                to.prefix().to_string(),
                to.netns().to_string(),
                format!("{:.1}", start.rate() as f64 * 8e-6),
                format!("{:.1}", f64::from(start.rtt_us()) / 1e3),
                match remaining_s(&start, now) {
                    Some(seconds) => seconds.to_string(),
                    None => "found wrong".to_owned(),
                },
            ]);
        }
        Ok(output::line(&table.render())?)
    }
}

impl What {
    fn start(&self) -> Result<AdvisedStart, Failure> {
        let given = self.rate.zip(self.rtt).zip(self.lifetime);
        let ((rate, rtt), lifetime) =
            given.ok_or_else(|| Failure::input("say --rate, --rtt and --for, or --withdraw"))?;
        let micros = u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX);
        let nanos = u64::try_from(lifetime.as_nanos()).unwrap_or(u64::MAX);
        let until = monotonic_ns().saturating_add(nanos);
        AdvisedStart::new(rate, micros, until).map_err(Failure::input)
    }
}

/// Whole seconds for which the advice still holds; none if a connection has found it wrong.
fn remaining_s(start: &AdvisedStart, now_ns: u64) -> Option<u64> {
    let until = start.until_ns()?;
    Some(until.saturating_sub(now_ns) / 1_000_000_000)
}

fn object(to: &Destination, start: &AdvisedStart, now_ns: u64) -> Value {
    json!({
        "destination": to.prefix().to_string(),
        "namespace": to.netns(),
        "rate_mbps": start.rate() as f64 * 8e-6,
        "rtt_ms": f64::from(start.rtt_us()) / 1e3,
        "holds_for_s": remaining_s(start, now_ns),
    })
}

/// Bytes per second.
fn rate(text: &str) -> Result<u64, String> {
    let rate = units_text::bandwidth(text);
    let rate = rate.map_err(|error| format!("{}; {}", error.message, error.help))?;
    Ok(rate.as_bps() / 8)
}

/// An address, and how many of its bits count.
fn prefix(text: &str) -> Result<(IpAddr, u32), String> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let wrong = || format!("{text:?} is no prefix; write one such as 192.0.2.0/24");
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(longest), |bits| bits.parse().map_err(|_| wrong()))?;
    if bits > longest {
        return Err(wrong());
    }
    Ok((address, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_an_address_and_a_number_of_bits() {
        assert_eq!(
            prefix("192.0.2.7/24"),
            Ok(("192.0.2.7".parse().unwrap(), 24))
        );
        assert_eq!(
            prefix("2001:db8::1"),
            Ok(("2001:db8::1".parse().unwrap(), 128))
        );
        for wrong in [
            "192.0.2.0/33",
            "192.0.2.0/",
            "192.0.2",
            "2001:db8::/129",
            "/8",
        ] {
            assert!(prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_rate_is_in_bytes() {
        assert_eq!(rate("800Mbit/s"), Ok(100_000_000));
        assert!(rate("fast").is_err());
    }
}
