//! The instruments: RFC 4898's variables, derived from the kernel's.
//!
//! What results have too is described in `fairwind-instruments`, whose rules for names and units
//! hold here as well. docs/reference/instruments.md holds the same table, and a test compares them.

mod table;

use crate::event::Sample;

pub use table::INSTRUMENTS;

/// One variable of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Instrument {
    /// Name of the column.
    pub name: &'static str,
    /// Unit: `bytes`, `us`, `packets`, …; empty for plain numbers.
    pub unit: &'static str,
    /// The object of RFC 4898, if it has one.
    pub rfc4898: Option<&'static str>,
    /// Its meaning, and what a missing value means.
    pub meaning: &'static str,
    /// What is peculiar to the kernel's; empty if nothing is.
    pub note: &'static str,
    /// The kernel's fields that it is computed from.
    pub kernel: &'static str,
    /// Whether it may be missing.
    pub optional: bool,
    value: fn(&Moment<'_>) -> Option<i64>,
    fill: fn(&[Sample], &Clock, &mut Values),
}

/// What the instruments of a connection depend on, besides its samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Jiffies per second.
    pub hz: u32,
    /// When the connection was opened, nanoseconds of `CLOCK_MONOTONIC`; `None` if before the
    /// trace.
    pub opened_ns: Option<u64>,
}

impl Clock {
    fn at<'sample>(&self, sample: &'sample Sample) -> Moment<'sample> {
        Moment {
            sample,
            hz: self.hz,
            opened_ns: self.opened_ns,
        }
    }
}

/// The values of one column in some rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The values present.
    pub values: Vec<i64>,
    /// Whether each row has a value; empty for a column in which none can be missing.
    pub present: Vec<bool>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.present.clear();
    }

    pub(crate) fn push(&mut self, value: Option<i64>) {
        self.present.push(value.is_some());
        self.values.extend(value);
    }
}

impl Instrument {
    /// Appends the values of these samples, at a fraction of the cost of one [`Instrument::value`]
    /// call for each.
    pub(crate) fn fill(&self, samples: &[Sample], clock: &Clock, values: &mut Values) {
        (self.fill)(samples, clock, values);
    }

    /// The value at that moment; `None` if there is none.
    pub fn value(&self, moment: &Moment<'_>) -> Option<i64> {
        (self.value)(moment)
    }
}

/// A sample, and what else the instruments depend on.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'sample> {
    /// The kernel's values.
    pub sample: &'sample Sample,
    /// Jiffies per second.
    pub hz: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC` at the connection's first event; `None` if the connection
    /// was opened before the trace.
    pub opened_ns: Option<u64>,
}

impl Moment<'_> {
    fn jiffies_us(&self, jiffies: u32) -> i64 {
        i64::from(jiffies) * 1_000_000 / i64::from(self.hz)
    }

    fn segments(&self, packets: u32) -> i64 {
        i64::from(packets) * i64::from(self.sample.mss_cache)
    }
}

/// The instrument with this column name.
pub fn find(name: &str) -> Option<&'static Instrument> {
    INSTRUMENTS
        .iter()
        .find(|instrument| instrument.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row of an instrument in docs/reference/instruments.md.
    fn row(i: &Instrument) -> String {
        let unit = if i.unit == "us" { "µs" } else { i.unit };
        let rfc = i
            .rfc4898
            .map_or("none".to_owned(), |name| format!("`{name}`"));
        let note = match i.note {
            "" => String::new(),
            note => format!("; {note}"),
        };
        let (name, kernel, meaning) = (i.name, i.kernel, i.meaning);
        format!("| `{name}` | {unit} | {rfc} | {kernel} | {meaning}{note} |")
    }

    #[test]
    fn the_document_holds_the_table_of_the_code() {
        let document = include_str!("../../../docs/reference/instruments.md");
        let section = document.split("## The instruments").nth(1).unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let expected: Vec<String> = INSTRUMENTS.iter().map(row).collect();
        assert!(
            rows.eq(expected.iter().map(String::as_str)),
            "docs/reference/instruments.md should have:\n{}",
            expected.join("\n")
        );
    }

    #[test]
    fn names_are_the_ends_of_the_rfcs() {
        for i in &INSTRUMENTS {
            let Some(rfc) = i.rfc4898 else { continue };
            let groups = ["Perf", "Path", "Stack", "App"];
            let is_right = groups
                .iter()
                .any(|g| rfc == format!("tcpEStats{g}{}", i.name));
            assert!(is_right, "{} is not {rfc}", i.name);
        }
    }
}
