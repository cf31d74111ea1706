//! Connections as `top` shows processes: the busiest first, with their rates as sparklines.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

use fairwind_kernel::hz;

use crate::event::{Event, Sample};
use crate::instrument::{Moment, find};

/// Maximum number of rates in a sparkline.
const HISTORY: usize = 24;
/// Number of pictures for which an ended connection stays visible.
const STAYS: u32 = 5;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const CONGESTION: [&str; 5] = ["open", "disorder", "cwr", "recovery", "loss"];

/// The state behind the pictures.
#[derive(Debug, Default)]
pub struct Live {
    hz: u32,
    connections: HashMap<u64, Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    /// Local address and the peer's.
    ends: String,
    program: String,
    control: String,
    latest: Option<Sample>,
    /// Bytes acknowledged and received, as of the latest picture.
    before: Option<u64>,
    /// Bit/s, one value per picture.
    rates: VecDeque<f64>,
    ended: u32,
}

impl Live {
    /// Starts without connections.
    pub fn new() -> Live {
        Live {
            hz: hz(),
            connections: HashMap::new(),
        }
    }

    /// Updates the connection of an event.
    pub fn event(&mut self, event: &Event<'_>) {
        let id = event.head().id;
        if let Event::Open(identity) | Event::Identity(identity) = event {
            let shown = self.connections.entry(id).or_default();
            shown.ends = format!("{} {}", identity.local(), identity.remote());
            shown.program = identity.program();
        }
        let Some(shown) = self.connections.get_mut(&id) else {
            return;
        };
        match event {
            Event::Open(_) | Event::Identity(_) => {}
            Event::Control(control) => shown.control = control.name(),
            Event::Sample(sample, _) => shown.latest = Some(**sample),
            Event::Close(sample, _) => {
                shown.latest = Some(**sample);
                shown.ended = 1;
            }
        }
    }

    /// The picture `seconds` after the previous one, with at most `lines` lines of `columns` columns.
    pub fn picture(&mut self, seconds: f64, lost: u64, lines: usize, columns: usize) -> String {
        for shown in self.connections.values_mut() {
            shown.advance(seconds);
        }
        self.connections.retain(|_, shown| shown.ended <= STAYS);
        let mut order: Vec<(&u64, &Shown)> = self.connections.iter().collect();
        order.sort_by(|(id, a), (other, b)| b.rate().total_cmp(&a.rate()).then(id.cmp(other)));

        let open = order.iter().filter(|(_, shown)| shown.ended == 0).count();
        let mut text = String::new();
        line(
            &mut text,
            columns,
            &format!("{open} connections, {lost} samples lost"),
        );
        line(
            &mut text,
            columns,
            &format!(
                "{:<42} {:<11} {:<10} {:>9} {:>8} {:>8} {:>8} {:>7} {:>4} {:<8} {}",
                "connection",
                "program",
                "control",
                "Mbit/s",
                "cwnd kB",
                "srtt ms",
                "rto ms",
                "retrans",
                "rtos",
                "state",
                "rate"
            ),
        );
        for (_, shown) in order.into_iter().take(lines.saturating_sub(2)) {
            line(&mut text, columns, &shown.text(self.hz));
        }
        text
    }
}

impl Shown {
    fn advance(&mut self, seconds: f64) {
        if self.ended > 0 {
            self.ended += 1;
        }
        let Some(sample) = &self.latest else { return };
        let bytes = sample.bytes_acked + sample.bytes_received;
        let rate = match self.before {
            Some(before) if seconds > 0.0 => 8.0 * bytes.saturating_sub(before) as f64 / seconds,
            _ => 0.0,
        };
        self.before = Some(bytes);
        self.rates.push_back(rate);
        if self.rates.len() > HISTORY {
            self.rates.pop_front();
        }
    }

    fn rate(&self) -> f64 {
        self.rates.back().copied().unwrap_or(0.0)
    }

    fn text(&self, hz: u32) -> String {
        let ends = &self.ends;
        let Some(sample) = &self.latest else {
            return ends.clone();
        };
        let moment = Moment {
            sample,
            hz,
            opened_ns: None,
        };
        let value = |name: &str| find(name).and_then(|instrument| instrument.value(&moment));
        let in_thousands = |name: &str| {
            value(name).map_or("-".to_owned(), |value| format!("{:.1}", value as f64 / 1e3))
        };
        let count = |name: &str| value(name).map_or("-".to_owned(), |value: i64| value.to_string());
        let state = match self.ended {
            0 => CONGESTION.get(usize::from(sample.ca_state)).copied(),
            _ => Some("ended"),
        };
        format!(
            "{ends:<42} {:<11} {:<10} {:>9.2} {:>8} {:>8} {:>8} {:>7} {:>4} {:<8} {}",
            shorten(&self.program, 11),
            shorten(&self.control, 10),
            self.rate() / 1e6,
            in_thousands("CurCwnd"),
            in_thousands("SmoothedRTT"),
            in_thousands("CurRTO"),
            count("SegsRetrans"),
            count("Timeouts"),
            state.unwrap_or("?"),
            sparkline(&self.rates),
        )
    }
}

fn shorten(text: &str, length: usize) -> String {
    text.chars().take(length).collect()
}

fn line(text: &mut String, columns: usize, content: &str) {
    let cut: String = content.chars().take(columns).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", cut.trim_end());
}

/// A bar for each value, in proportion to the largest.
fn sparkline(values: &VecDeque<f64>) -> String {
    let greatest = values.iter().copied().fold(0.0, f64::max);
    // Where all are 0, the share is no number, and a cast makes 0 of it.
    let bar = |value: &f64| BARS[((value / greatest * 7.0).round() as usize).min(7)];
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Identity;

    fn connection(live: &mut Live, id: u64) {
        let mut identity = Identity::default();
        identity.head.id = id;
        live.event(&Event::Open(&identity));
    }

    fn sample(id: u64, bytes_acked: u64) -> Sample {
        let mut sample = Sample::default();
        sample.head.id = id;
        sample.bytes_acked = bytes_acked;
        sample.snd_cwnd = 10;
        sample.mss_cache = 1000;
        sample
    }

    #[test]
    fn sparklines_are_in_proportion_to_the_greatest() {
        assert_eq!(sparkline(&VecDeque::from([0.0, 3.5, 7.0])), "▁▅█");
        assert_eq!(sparkline(&VecDeque::from([0.0, 0.0])), "▁▁");
    }

    #[test]
    fn the_busiest_connection_stands_first() {
        let mut live = Live::new();
        for id in [1, 2] {
            connection(&mut live, id);
            live.event(&Event::Sample(&sample(id, 0), None));
        }
        live.picture(1.0, 0, 24, 200);
        live.event(&Event::Sample(&sample(1, 125_000), None));
        live.event(&Event::Sample(&sample(2, 250_000), None));
        let picture = live.picture(1.0, 3, 24, 200);
        let lines: Vec<&str> = picture.lines().collect();
        assert_eq!(lines[0], "2 connections, 3 samples lost");
        assert!(lines[2].contains(" 2.00 "), "{picture}");
        assert!(lines[3].contains(" 1.00 "), "{picture}");
        assert!(lines[2].contains(" 10.0 "), "{picture}");
    }

    #[test]
    fn an_ended_connection_leaves_after_some_pictures() {
        let mut live = Live::new();
        connection(&mut live, 1);
        live.event(&Event::Close(&sample(1, 0), None));
        assert!(live.picture(1.0, 0, 24, 200).contains("ended"));
        for _ in 0..5 {
            live.picture(1.0, 0, 24, 200);
        }
        assert_eq!(live.picture(1.0, 0, 24, 200).lines().count(), 2);
    }

    #[test]
    fn a_picture_is_no_larger_than_asked() {
        let mut live = Live::new();
        for id in 0..9 {
            connection(&mut live, id);
        }
        let picture = live.picture(1.0, 0, 5, 30);
        assert_eq!(picture.lines().count(), 5);
        assert!(picture.lines().all(|line| line.chars().count() <= 30));
    }
}
