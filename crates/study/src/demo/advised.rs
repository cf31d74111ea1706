//! The advisor's answers during the transfer, and the changes made for them: computed beforehand for the
//! simulator, read from the server's log in the lab.

use std::fs;
use std::path::Path;

use fairwind_advice::{Advice, History, Hop, Request, Samples, Settings, advise};
use fairwind_cc::kernel::is_nocc;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::day::Day;
use super::story::{BACKGROUND_MODEL, HOP, Story};

/// Shortest time between two questions to the advisor, seconds.
const SHORTEST_WAIT_S: f64 = 0.1;

/// An answer of the advisor.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Since the start of the run, seconds.
    pub at_s: f64,
    /// Its estimate of the available bandwidth, Mbit/s.
    pub available_mbps: Option<f64>,
}

/// A change on the connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Since the start of the run, seconds.
    pub at_s: f64,
    /// What was changed, in words.
    pub what: String,
    /// The previous value.
    pub from: String,
    /// The new value.
    pub to: String,
    /// The advisor's reason.
    pub reason: String,
}

/// All answers and changes of a transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advised {
    /// The low edge of what is forecast when the transfer starts, Mbit/s, if it is to start by that.
    pub low_mbps: Option<f64>,
    /// The answers, ascending in time.
    pub answers: Vec<Answer>,
    /// The changes, ascending in time.
    pub changes: Vec<Change>,
    /// Advice that could not be followed.
    pub refused: Vec<String>,
}

/// [`Change::what`] for a change of congestion control.
pub const CONTROL: &str = "congestion control";

impl Advised {
    /// The changes of the congestion control.
    pub fn control_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.what == CONTROL)
    }

    /// The part before `end_s`.
    pub fn until(&self, end_s: f64) -> Advised {
        let mut until = self.clone();
        until.answers.retain(|answer| answer.at_s < end_s);
        until.changes.retain(|change| change.at_s < end_s);
        until
    }

    /// When congestion control was off, up to `end_s`: start and end, seconds.
    pub fn spans_off(&self, end_s: f64) -> Vec<(f64, f64)> {
        let mut spans = Vec::new();
        let mut since = None;
        for change in self.control_changes() {
            match (is_nocc(&change.to), since) {
                (true, None) => since = Some(change.at_s),
                (false, Some(from)) => {
                    spans.push((from, change.at_s));
                    since = None;
                }
                _ => {}
            }
        }
        spans.extend(since.filter(|&from| from < end_s).map(|from| (from, end_s)));
        spans
    }
}

/// The answers of an advisor that learns of every test at its time.
pub fn foreseen(story: &Story, day: &Day) -> Advised {
    let settings = story.settings();
    let mut history = known(story, day);
    let mut tests = day.tests.iter().copied().peekable();
    let mut advised = Advised::default();
    let mut control = settings.controls.on.clone().unwrap_or_default();
    let mut at_s = story.route.start_s();
    while at_s < story.length_s {
        let now = story.time_at(at_s);
        while let Some(test) = tests.next_if(|test| test.time <= now) {
            // The generator's tests are in order and not in the future.
            let _ = history.hops[0].insert(test, now);
        }
        let advice = advise(&history, &Request::default(), now, &settings);
        advised.answers.push(Answer {
            at_s,
            available_mbps: advice.available_mbps,
        });
        let wanted = advice.congestion_control.clone().unwrap_or_default();
        if wanted != control {
            advised.changes.push(Change {
                at_s,
                what: CONTROL.to_owned(),
                from: std::mem::replace(&mut control, wanted.clone()),
                to: wanted,
                reason: advice.reason.clone(),
            });
        }
        at_s += wait_s(&advice, now, story);
    }
    advised
}

/// What the advisor forecasts in the [background](BACKGROUND_MODEL) when the transfer starts, and nothing else.
pub fn promised(story: &Story, day: &Day) -> Advised {
    let settings = Settings {
        model: BACKGROUND_MODEL,
        ..story.settings()
    };
    let mut history = known(story, day);
    let now = story.time_at(story.route.start_s());
    for test in day.tests.iter().filter(|test| test.time <= now) {
        let _ = history.hops[0].insert(*test, now);
    }
    let advice = advise(&history, &Request::default(), now, &settings);
    Advised {
        low_mbps: advice.interval_mbps.map(|[low, _]| low),
        ..Advised::default()
    }
}

/// What the advisor knows before the run.
fn known(story: &Story, day: &Day) -> History {
    let (samples, _) = Samples::from_unordered(day.history.iter().copied(), story.begins);
    History {
        hops: vec![Hop::new(HOP, samples)],
        rtt: None,
    }
}

fn wait_s(advice: &Advice, now: Timestamp, story: &Story) -> f64 {
    let wait: SignedDuration = advice.next_advice.duration_since(now);
    (wait.as_secs_f64() / story.rate).max(SHORTEST_WAIT_S)
}

/// What the server wrote to its log of advice about a transfer that started `start_s` seconds after the run; empty
/// if there is no log.
pub fn logged(log: &Path, start_s: f64) -> Advised {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut advised = Advised::default();
    for record in text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
    {
        advised.take(&record, start_s);
    }
    advised
}

impl Advised {
    /// Adds a line of the log.
    fn take(&mut self, record: &Value, start_s: f64) {
        let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
        let at_s = start_s + record["seconds"].as_f64().unwrap_or_default();
        match record["event"].as_str() {
            Some("advice") => self.answers.push(Answer {
                at_s,
                available_mbps: record["available_mbps"].as_f64(),
            }),
            Some("change") => self.changes.push(Change {
                at_s,
                what: text("what").replace('_', " "),
                from: text("from"),
                to: text("to"),
                reason: text("reason"),
            }),
            Some("refused") => self.refused.push(format!(
                "{} {} was advised, but {}: {}",
                text("what").replace('_', " "),
                text("wanted"),
                text("reason"),
                text("fix")
            )),
            Some("lost") => self.refused.push(format!("no advice: {}", text("reason"))),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::story::Route;

    #[test]
    fn congestion_control_comes_on_in_the_morning_and_goes_off_in_the_evening() {
        let story = Story::full(Route::Day, 1);
        let advised = foreseen(&story, &Day::of(&story));
        let changes: Vec<&Change> = advised.control_changes().collect();
        assert_eq!(changes[0].at_s, 2.0);
        assert_eq!((&*changes[0].from, &*changes[0].to), ("cubic", "nocc"));
        let spans = advised.spans_off(story.length_s);
        // Traffic of 58 Mbit/s: at about half past ten (4 s) and half past eight in the evening (24 s).
        assert!(spans[0].0 == 2.0 && spans[0].1 < 6.0, "{spans:?}");
        assert_eq!(spans.last().unwrap().1, story.length_s);
        for (from, to) in &spans[..spans.len() - 1] {
            assert!(*to < 6.0 || *from > 21.0, "{spans:?}");
        }
    }

    #[test]
    fn a_transfer_in_the_background_is_promised_less_than_there_is() {
        for (route, spare_mbps) in [(Route::Day, 45.0..65.0), (Route::Long, 150.0..165.0)] {
            let story = Story::full(route, 1);
            let low_mbps = promised(&story, &Day::of(&story)).low_mbps.unwrap();
            assert!(low_mbps > 0.5 * spare_mbps.start && low_mbps < spare_mbps.end);
        }
    }

    #[test]
    fn the_log_of_a_server_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("advice.log");
        let line = r#"{"time":"2026-03-02T14:00:00Z","local":"192.0.2.1:20","peer":"192.0.2.7:40000","seconds":1.5,"bytes":1000,"event":"change","what":"congestion_control","from":"cubic","to":"fw_nocc_1a2b","reason":"because"}"#;
        fs::write(&log, format!("{line}\n")).unwrap();
        let advised = logged(&log, 2.0);
        assert_eq!(advised.changes[0].what, CONTROL);
        assert_eq!(advised.spans_off(9.0), [(3.5, 9.0)]);
        assert_eq!(logged(&folder.path().join("none"), 2.0), Advised::default());
    }
}
