//! `fairwind history generate`: makes up a plausible history.

use std::time::Duration;

use clap::Args;
use fairwind_advice::{Curve, Sample};
use fairwind_advisor::Clock;
use fairwind_advisor::host::HostPattern;
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

use super::import::{summary, tell_if_no_host_leads_to};
use crate::command::advisor::State;
use crate::failure::Failure;
use crate::output;

/// Generate a history for a path: weeks of a daily and weekly curve with noise
///
/// Traffic is least at four in the morning, most at three in the afternoon, less at the weekend. Equal
/// seeds give equal histories, on every machine.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind history generate --path lab --host 10.0.0.0/8 --weeks 9 --until 2026-03-02T14:00:00Z
  fairwind history generate --capacity 100 --quiet 20 --busy 70 --csv > curve.csv")]
pub(crate) struct Generate {
    /// Path, which is declared if it is new; required without --csv
    #[arg(long, value_name = "NAME", required_unless_present = "csv")]
    path: Option<String>,
    /// Host to add to the path; repeatable
    #[arg(long, value_name = "HOST")]
    host: Vec<HostPattern>,
    /// Hop [default: the path's first declared hop, or path]
    #[arg(long, value_name = "NAME")]
    hop: Option<String>,
    /// Length, 1 to 520 weeks
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..=520))]
    weeks: u32,
    /// End, which may be in the future [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<Timestamp>,
    /// Time between samples, 1 to 86400 seconds
    #[arg(long, value_name = "S", default_value = "300", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    interval: u32,
    /// Bandwidth of the link, Mbit/s
    #[arg(long, value_name = "MBPS", default_value = "100")]
    capacity: f64,
    /// Traffic at 04:00 of a working day, Mbit/s
    #[arg(long, value_name = "MBPS", default_value = "20")]
    quiet: f64,
    /// Traffic at 15:00 of a working day, Mbit/s
    #[arg(long, value_name = "MBPS", default_value = "70")]
    busy: f64,
    /// By how much traffic is lower at the weekend, Mbit/s
    #[arg(long, value_name = "MBPS", default_value = "20")]
    weekend: f64,
    /// Standard deviation of the noise, which comes and goes within an hour, Mbit/s
    #[arg(long, value_name = "MBPS", default_value = "2")]
    noise: f64,
    /// Time zone of the days, such as Europe/Berlin
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// Seed
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Print CSV and write no history; not with --path, --host, --hop and --state
    #[arg(long, conflicts_with_all = ["path", "host", "hop", "state"])]
    csv: bool,
    #[command(flatten)]
    state: State,
}

impl Generate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let until = self.until.unwrap_or_else(Timestamp::now);
        let samples = self.samples(until)?;
        let Some(name) = &self.path else {
            let line = |s: &Sample| format!("{},{:.3}\n", s.time, s.available_mbps);
            let text: String = samples.iter().map(line).collect();
            return Ok(output::line(&format!("time,available_mbps\n{text}"))?);
        };
        // A history for the lab's clock may lie in this machine's future.
        let clock = Clock::new(Some(until), 1.0);
        let local = self.state.open(clock)?;
        let path = local.path_to(name, &self.host)?;
        let answer = local.fill(&path, self.hop.as_deref(), samples)?;
        output::line(&summary(&answer))?;
        tell_if_no_host_leads_to(&path, self.state.folder());
        Ok(())
    }

    fn samples(&self, until: Timestamp) -> Result<Vec<Sample>, Failure> {
        let (capacity, noise) = (self.capacity, self.noise);
        let numbers = [capacity, self.quiet, self.busy, self.weekend, noise];
        if !numbers
            .iter()
            .all(|number| (0.0..=f64::MAX).contains(number))
        {
            return Err(Failure::input("rates are numbers that are not negative"));
        }
        let length = SignedDuration::from_hours(i64::from(self.weeks) * 7 * 24);
        let from = until.checked_sub(length).map_err(Failure::input)?;
        let curve = Curve {
            seed: self.seed,
            step: Duration::from_secs(self.interval.into()),
            time_zone: TimeZone::get(&self.time_zone).map_err(Failure::input)?,
            capacity_mbps: capacity,
            day: vec![(4.0, capacity - self.quiet), (15.0, capacity - self.busy)],
            weekend_mbps: self.weekend,
            days_mbps: 0.0,
            slow_mbps: noise,
            fast_mbps: 0.0,
            ..Curve::default()
        };
        Ok(curve.samples(from, until))
    }
}
