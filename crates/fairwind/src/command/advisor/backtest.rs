//! `fairwind advisor backtest`: how well the models would have done.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use fairwind_advice::backtest::{Baseline, Report, backtest};
use fairwind_advice::{ModelKind, Samples, Settings};
use fairwind_advisor::{Clock, import};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use super::State;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Judge the models on a path's own past, or on a recording
///
/// Forecasts each sample of the second half an hour ahead, from what was known then, and follows the
/// advice against the threshold: calls per hour, calls that changed nothing, and the share of time in
/// the wrong mode. The table also has forecasts that any model has to beat: the last value, and
/// those of the same time yesterday and a week ago.
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advisor backtest --path argonne
  fairwind advisor backtest recorded.csv --threshold 42 --time-zone America/Chicago
  fairwind advisor backtest ifHCInOctets.csv.gz --capacity 155")]
pub(crate) struct Backtest {
    /// Recording, as `fairwind history import` reads it
    #[arg(required_unless_present = "path", conflicts_with = "path")]
    file: Option<PathBuf>,
    /// Path of the advisor whose history is judged, with its settings; not with FILE
    #[arg(long, value_name = "NAME")]
    path: Option<String>,
    /// Threshold, Mbit/s; without one, calls/h, redundant and wrong mode stay empty [default: the path's; none
    /// for a recording]
    #[arg(long, value_name = "MBPS")]
    threshold: Option<f64>,
    /// Capacity, Mbit/s, if the recording has no column capacity_mbps; not with --path
    #[arg(long, value_name = "MBPS", conflicts_with = "path")]
    capacity: Option<f64>,
    /// Time zone of the days [default: the path's, or UTC]
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// First moment that is judged [default: the middle of the history]
    #[arg(long, value_name = "TIME")]
    from: Option<Timestamp>,
    /// How far ahead to forecast, 1 to 1440 minutes
    #[arg(long, value_name = "MINUTES", default_value = "60", value_parser = clap::value_parser!(u32).range(1..=1440))]
    ahead: u32,
    #[command(flatten)]
    state: State,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The samples of a hop, with the settings of its path.
struct Past {
    hop: String,
    samples: Samples,
    settings: Settings,
}

impl Backtest {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut judged = Vec::new();
        for past in self.pasts()? {
            let all = past.samples.all();
            let (Some(first), Some(last)) = (all.iter().next(), all.last()) else {
                continue;
            };
            let from = self.from.unwrap_or_else(|| middle(first.time, last.time));
            let ahead = Duration::from_secs(u64::from(self.ahead) * 60);
            let mut reports = Vec::new();
            for model in ModelKind::ALL {
                let settings = Settings {
                    model,
                    ..past.settings.clone()
                };
                reports.push(backtest(&past.samples, from, ahead, &settings));
            }
            for baseline in Baseline::ALL {
                reports.push(baseline.judge(&past.samples, from, ahead, &past.settings));
            }
            let hop = past.hop;
            judged.push(Judged { hop, from, reports });
        }
        if judged.is_empty() {
            return Err(Failure::input("there is no history to judge by"));
        }
        if self.json {
            return Ok(output::json(&json_of(&judged, self.ahead))?);
        }
        Ok(output::line(&text(&judged, self.ahead))?)
    }

    fn pasts(&self) -> Result<Vec<Past>, Failure> {
        let mut pasts = match (&self.path, &self.file) {
            (Some(path), _) => self.of_path(path)?,
            (None, Some(file)) => vec![of_file(file, self.capacity)?],
            (None, None) => Vec::new(),
        };
        for past in &mut pasts {
            past.settings.threshold_mbps = self.threshold.or(past.settings.threshold_mbps);
            if let Some(zone) = &self.time_zone {
                past.settings.time_zone = TimeZone::get(zone).map_err(Failure::input)?;
            }
        }
        Ok(pasts)
    }

    fn of_path(&self, name: &str) -> Result<Vec<Past>, Failure> {
        let local = self.state.open(Clock::System)?;
        let path = local.path(name)?;
        let hops = local.samples(&path)?;
        let pasts = hops.into_iter().map(|(hop, samples)| Past {
            hop,
            samples,
            settings: path.settings.clone(),
        });
        Ok(pasts.collect())
    }
}

fn of_file(file: &Path, capacity_mbps: Option<f64>) -> Result<Past, Failure> {
    let opened = File::open(file).map_err(Failure::no_input(file))?;
    let options = import::ImportOptions {
        capacity_mbps,
        ..Default::default()
    };
    let recording = import::read(opened, &options).map_err(Failure::no_input(file))?;
    let (samples, refused) = Samples::from_unordered(recording.samples, Timestamp::MAX);
    if refused.total() > 0 {
        let (file, refused) = (file.display(), refused.total());
        eprintln!("{file}: {refused} samples were refused");
    }
    let name = file.file_name().unwrap_or_default();
    Ok(Past {
        hop: name.to_string_lossy().into_owned(),
        samples,
        settings: Settings {
            capacity_mbps,
            ..Settings::default()
        },
    })
}

fn middle(first: Timestamp, last: Timestamp) -> Timestamp {
    let middle = (first.as_microsecond() + last.as_microsecond()) / 2;
    Timestamp::from_microsecond(middle).unwrap_or(last)
}

/// The reports for a hop.
struct Judged {
    hop: String,
    from: Timestamp,
    reports: Vec<Report>,
}

fn json_of(judged: &[Judged], ahead_minutes: u32) -> serde_json::Value {
    let reports = judged
        .iter()
        .flat_map(|judged| judged.reports.iter().map(move |report| (judged, report)));
    let entries = reports.map(|(judged, report)| {
        let mut entry = json!(report);
        entry["hop"] = json!(judged.hop);
        entry["from"] = json!(judged.from);
        entry["ahead_minutes"] = json!(ahead_minutes);
        if let Some(following) = &report.following {
            entry["following"]["calls_per_hour"] = json!(following.calls_per_hour());
            entry["following"]["wrong_share"] = json!(following.wrong_share());
        }
        entry
    });
    entries.collect()
}

fn text(judged: &[Judged], ahead_minutes: u32) -> String {
    let mut text = String::new();
    for judged in judged {
        let from = judged.from.strftime("%Y-%m-%d %H:%M:%SZ");
        text += &format!(
            "{}: forecast {ahead_minutes} minutes ahead, judged from {from}\n",
            judged.hop
        );
    }
    text + "\n" + &table(judged).render()
}

fn table(judged: &[Judged]) -> Table {
    let mut table = Table::new(
        "hop | model | >judged | >error Mbit/s | >in interval | >width Mbit/s | \
             >calls/h | >redundant | >wrong mode",
    );
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let reports = judged
        .iter()
        .flat_map(|judged| judged.reports.iter().map(|report| (&judged.hop, report)));
    for (hop, report) in reports {
        let following = report.following.as_ref().filter(|f| f.hours > 0.0);
        let error = (report.judged > 0).then_some(report.mean_absolute_error_mbps);
        let redundant = following.map(|f| f64::from(f.redundant_calls) / f64::from(f.calls.max(1)));
        table.row([
            hop.clone(),
            report.model.clone(),
            report.judged.to_string(),
            error.map(|mbps| format!("{mbps:.3}")).unwrap_or_default(),
            report.interval_coverage.map(percent).unwrap_or_default(),
            report
                .interval_width_mbps
                .map(|mbps| format!("{mbps:.2}"))
                .unwrap_or_default(),
            following
                .map(|f| format!("{:.2}", f.calls_per_hour()))
                .unwrap_or_default(),
            redundant.map(percent).unwrap_or_default(),
            following
                .map(|f| percent(f.wrong_share()))
                .unwrap_or_default(),
        ]);
    }
    table
}
