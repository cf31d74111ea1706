//! Traces as text: CSV of time and value, and mahimahi's packet opportunities.
//!
//! Blank lines and lines that start with `#` are skipped. A first line without numbers is the header:
//! the column of times is the first whose name begins with `time`, `timestamp` or `unix_time`, in the
//! unit that it ends in (`_s`, `_ms`, `_us`, `_ns`; seconds if it names none); the column of values is
//! the first one whose name ends in a known unit (`capacity_mbps`, `delay_ms`, `loss_percent`).
//! Without a header, the columns are seconds and the value.

use super::{Opportunities, Steps, TraceError};
use crate::units::{Bandwidth, Duration, Time};

/// A quantity that a trace can record.
pub trait Traced: Copy {
    /// Endings of column names, and their factors to the base unit.
    const UNITS: &'static [(&'static str, f64)];
    /// The expected values in words, for error messages.
    const RANGE: &'static str;
    /// The quantity of `value` base units; `None` if it is out of range.
    fn from_base_units(value: f64) -> Option<Self>;
}

/// The base unit is bits per second.
impl Traced for Bandwidth {
    const UNITS: &'static [(&'static str, f64)] =
        &[("bps", 1.0), ("kbps", 1e3), ("mbps", 1e6), ("gbps", 1e9)];
    const RANGE: &'static str = "a bandwidth of 0 to 10^18 bit/s";
    fn from_base_units(value: f64) -> Option<Bandwidth> {
        (0.0..=1e18)
            .contains(&value)
            .then(|| Bandwidth::from_bps(value.round() as u64))
    }
}

/// The base unit is seconds.
impl Traced for Duration {
    const UNITS: &'static [(&'static str, f64)] =
        &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];
    const RANGE: &'static str = "a delay of 0 to 10^9 s";
    fn from_base_units(value: f64) -> Option<Duration> {
        (0.0..=1e9)
            .contains(&value)
            .then(|| Duration::from_secs_f64(value))
    }
}

/// A probability; the base unit is 1.
impl Traced for f64 {
    const UNITS: &'static [(&'static str, f64)] = &[
        ("probability", 1.0),
        ("ratio", 1.0),
        ("loss", 1.0),
        ("percent", 0.01),
    ];
    const RANGE: &'static str = "a probability of 0 to 1 (0 to 100 %)";
    fn from_base_units(value: f64) -> Option<f64> {
        (0.0..=1.0).contains(&value).then_some(value)
    }
}

/// Reads steps from a CSV of time and value; times count from the first. `unit` is the unit of the
/// values if there is no header: one of [`Traced::UNITS`].
///
/// # Errors
///
/// If the header lacks a column, `unit` is unknown, a field is not a number, a value is out of range, a
/// time goes back or there are no values; the error names the line.
pub fn parse_steps<V: Traced>(text: &str, unit: &str) -> Result<Steps<V>, TraceError> {
    let mut lines = rows(text).peekable();
    let &(first_line, first_row) = lines.peek().ok_or_else(|| empty(text, "time,value"))?;
    let mut columns = Columns {
        time: 0,
        value: 1,
        second: 1.0,
        unit: 1.0,
    };
    if is_header(first_row) {
        lines.next();
        columns = Columns::from_header::<V>(first_line, first_row)?;
    } else {
        columns.unit = factor::<V>(unit).ok_or_else(|| {
            let reason = format!("the unit of the values is not one of {}", names::<V>());
            TraceError::new(first_line, reason)
        })?;
    }

    let (mut points, mut numbers) = (Vec::new(), Vec::new());
    let mut origin = None;
    for (line, row) in lines {
        let time = number(line, row, columns.time, "time")? * columns.second;
        let value = number(line, row, columns.value, "value")?;
        let quantity = V::from_base_units(value * columns.unit).ok_or_else(|| {
            TraceError::new(
                line,
                format!("{value} is out of range; expected {}", V::RANGE),
            )
        })?;
        let since = time - *origin.get_or_insert(time);
        if since < 0.0 {
            return Err(TraceError::new(line, GOES_BACK));
        }
        points.push((Time::ZERO + Duration::from_secs_f64(since), quantity));
        numbers.push(line);
    }
    Steps::new(points).map_err(|error| at_line(error, &numbers, text))
}

/// Reads packet opportunities: either mahimahi's format, a line with a time in milliseconds for each
/// 1500 bytes, or a CSV whose second column is the number of opportunities at that time. The trace
/// repeats after its last time.
///
/// # Errors
///
/// If the first column is not one of times, a field is not a valid number, a time is negative or goes back,
/// there is no opportunity or the last time is 0; the error names the line.
pub fn parse_opportunities(text: &str) -> Result<Opportunities, TraceError> {
    let mut lines = rows(text).peekable();
    let &(first_line, first_row) = lines.peek().ok_or_else(|| empty(text, "time_ms"))?;
    let mut second = 1e-3;
    if is_header(first_row) {
        lines.next();
        let name = first_row.split(',').next().unwrap_or_default();
        second = time_unit(name, 1e-3).ok_or_else(|| {
            let reason = format!("the first column is \"{}\"; expected time_ms", name.trim());
            TraceError::new(first_line, reason)
        })?;
    }

    let (mut points, mut numbers) = (Vec::new(), Vec::new());
    for (line, row) in lines {
        let time = number(line, row, 0, "time")?;
        if time < 0.0 {
            let reason = "the time is negative; times count from the start of the run";
            return Err(TraceError::new(line, reason));
        }
        let packets = if row.contains(',') {
            number(line, row, 1, "packets")?
        } else {
            1.0
        };
        if packets.fract() != 0.0 || !(0.0..=1e9).contains(&packets) {
            let reason = format!("{packets} is not a number of packets; expected 0, 1, 2, ...");
            return Err(TraceError::new(line, reason));
        }
        points.push((
            Time::ZERO + Duration::from_secs_f64(time * second),
            packets as u32,
        ));
        numbers.push(line);
    }
    Opportunities::new(points).map_err(|error| at_line(error, &numbers, text))
}

pub(super) const GOES_BACK: &str = "the time goes back; times must not decrease";

struct Columns {
    time: usize,
    value: usize,
    /// Length of the unit of the times, in seconds.
    second: f64,
    /// Size of the unit of the values, in base units.
    unit: f64,
}

impl Columns {
    fn from_header<V: Traced>(line: usize, header: &str) -> Result<Columns, TraceError> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let Some((time, second)) = find(&names, |name| time_unit(name, 1.0)) else {
            let reason = "no column of times; expected one named time_s, time_ms or unix_time";
            return Err(TraceError::new(line, reason));
        };
        let value = find(&names, |name| match time_unit(name, 1.0) {
            Some(_) => None,
            None => factor::<V>(name.rsplit('_').next().unwrap_or(name)),
        });
        let Some((value, unit)) = value else {
            let reason = format!(
                "no column of values; expected one whose name ends in {}",
                self::names::<V>()
            );
            return Err(TraceError::new(line, reason));
        };
        Ok(Columns {
            time,
            value,
            second,
            unit,
        })
    }
}

fn find<T>(names: &[&str], test: impl Fn(&str) -> Option<T>) -> Option<(usize, T)> {
    names
        .iter()
        .enumerate()
        .find_map(|(index, name)| Some((index, test(name)?)))
}

/// Length in seconds of the unit in the name of a column of times, or `without_unit` if it names none;
/// `None` if the column is not one of times.
fn time_unit(name: &str, without_unit: f64) -> Option<f64> {
    let name = name.trim().to_ascii_lowercase();
    let rest = ["unix_time", "timestamp", "time"]
        .iter()
        .find_map(|word| name.strip_prefix(word))?;
    let ending = rest.rsplit('_').next().unwrap_or_default();
    Some(factor::<Duration>(ending).unwrap_or(without_unit))
}

fn factor<V: Traced>(unit: &str) -> Option<f64> {
    let unit = unit.to_ascii_lowercase();
    V::UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|&(_, factor)| factor)
}

fn names<V: Traced>() -> String {
    let names: Vec<&str> = V::UNITS.iter().map(|&(name, _)| name).collect();
    names.join(", ")
}

/// Lines with content, numbered from 1.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn is_header(row: &str) -> bool {
    row.split(',')
        .all(|field| field.trim().parse::<f64>().is_err())
}

fn number(line: usize, row: &str, column: usize, what: &str) -> Result<f64, TraceError> {
    let field = row.split(',').nth(column).map(str::trim);
    let Some(field) = field else {
        let reason = format!("no {what} in column {}", column + 1);
        return Err(TraceError::new(line, reason));
    };
    match field.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(TraceError::new(
            line,
            format!("the {what} \"{field}\" is not a number"),
        )),
    }
}

fn last_line(text: &str) -> usize {
    text.lines().count().max(1)
}

fn empty(text: &str, expected: &str) -> TraceError {
    let reason = format!("the trace is empty; expected lines of {expected}");
    TraceError::new(last_line(text), reason)
}

/// Replaces the error's position in the list of points by the line that the point came from.
fn at_line(error: TraceError, numbers: &[usize], text: &str) -> TraceError {
    let line = numbers.get(error.line.wrapping_sub(1)).copied();
    TraceError {
        line: line.unwrap_or_else(|| last_line(text)),
        ..error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::OPPORTUNITY_BYTES;

    fn bandwidth(text: &str) -> Result<Steps<Bandwidth>, String> {
        parse_steps(text, "mbps").map_err(|error| error.to_string())
    }

    fn opportunities(text: &str) -> Result<Opportunities, String> {
        parse_opportunities(text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_header_names_the_units() {
        let steps = bandwidth("time_ms,capacity_mbps\n0,2.4\n100,9.48\n").unwrap();
        assert_eq!(
            steps.at(Time::from_millis(99)),
            Bandwidth::from_bps(2_400_000)
        );
        assert_eq!(
            steps.at(Time::from_millis(100)),
            Bandwidth::from_bps(9_480_000)
        );
    }

    #[test]
    fn without_a_header_times_are_seconds_and_values_in_the_unit_given() {
        let steps = bandwidth("0,1\n2,3\n").unwrap();
        assert_eq!(steps.at(Time::from_secs(1)), Bandwidth::from_mbps(1));
        assert_eq!(steps.at(Time::from_secs(2)), Bandwidth::from_mbps(3));
    }

    #[test]
    fn times_count_from_the_first() {
        let text = "unix_time_utc,available_mbps\n1078099200,40\n1078099500,41\n";
        let steps = bandwidth(text).unwrap();
        assert_eq!(steps.at(Time::from_secs(299)), Bandwidth::from_mbps(40));
        assert_eq!(steps.at(Time::from_secs(300)), Bandwidth::from_mbps(41));
    }

    #[test]
    fn the_value_is_found_by_its_unit_among_other_columns() {
        let steps = bandwidth("note,rate_kbps,time_s\n7,384,0\n8,512,1\n").unwrap();
        assert_eq!(steps.at(Time::ZERO), Bandwidth::from_bps(384_000));
    }

    #[test]
    fn comments_and_blank_lines_are_skipped_but_counted() {
        let error = bandwidth("# measured\n\n0,1\n# more\n1,x\n").unwrap_err();
        assert_eq!(error, "line 5: the value \"x\" is not a number");
    }

    #[test]
    fn a_time_that_goes_back_is_refused_with_its_line() {
        let error = bandwidth("time_s,rate_mbps\n0,1\n2,1\n1,1\n").unwrap_err();
        assert_eq!(error, "line 4: the time goes back; times must not decrease");
    }

    #[test]
    fn an_empty_trace_is_refused() {
        let expected = "line 1: the trace is empty; expected lines of time,value";
        assert_eq!(bandwidth("").unwrap_err(), expected);
        let expected = "line 1: the trace has no values; it needs at least one";
        assert_eq!(bandwidth("time_s,rate_mbps\n").unwrap_err(), expected);
    }

    #[test]
    fn a_value_out_of_range_is_refused() {
        let error = bandwidth("0,-1\n").unwrap_err();
        assert_eq!(
            error,
            "line 1: -1 is out of range; expected a bandwidth of 0 to 10^18 bit/s"
        );
    }

    #[test]
    fn a_missing_column_is_named() {
        assert_eq!(
            bandwidth("5\n").unwrap_err(),
            "line 1: no value in column 2"
        );
        assert_eq!(
            bandwidth("when,rate_mbps\n0,1\n").unwrap_err(),
            "line 1: no column of times; expected one named time_s, time_ms or unix_time"
        );
        assert_eq!(
            bandwidth("time_s,a,b\n0,1,2\n").unwrap_err(),
            "line 1: no column of values; expected one whose name ends in bps, kbps, mbps, gbps"
        );
    }

    #[test]
    fn a_value_in_another_unit_is_refused() {
        let expected = "line 1: no column of values; expected one whose name ends in";
        for header in ["time_s,rate_kbit", "time_s,delay_ms", "time_s,mbps down"] {
            let error = bandwidth(&format!("{header}\n0,1\n")).unwrap_err();
            assert_eq!(
                error,
                format!("{expected} bps, kbps, mbps, gbps"),
                "{header}"
            );
        }
        let delays = parse_steps::<Duration>("time_s,rate_mbps\n0,1\n", "ms");
        let error = delays.unwrap_err().to_string();
        assert_eq!(error, format!("{expected} s, ms, us, ns"));
    }

    #[test]
    fn delays_and_probabilities_have_their_own_units() {
        let delays: Steps<Duration> = parse_steps("time_s,delay_ms\n0,12.5\n", "s").unwrap();
        assert_eq!(delays.at(Time::ZERO), Duration::from_micros(12_500));
        let loss: Steps<f64> = parse_steps("time_s,loss_percent\n0,2\n", "loss").unwrap();
        assert_eq!(loss.at(Time::ZERO), 0.02);
    }

    #[test]
    fn a_line_of_mahimahi_is_one_opportunity() {
        let trace = opportunities("1\n1\n4\n").unwrap();
        assert_eq!(trace.list, [(1_000_000, 3000), (4_000_000, 1500)]);
        assert_eq!(trace.period(), Duration::from_millis(4));
        // 3 * 12,000 bit in 4 ms
        assert_eq!(trace.mean_bps(), 9e6);
    }

    #[test]
    fn a_csv_counts_opportunities() {
        let trace = opportunities("time_ms,packets_1500B\n0,4\n3,0\n5,2\n").unwrap();
        assert_eq!(
            trace.list,
            [
                (0, 4 * OPPORTUNITY_BYTES),
                (5_000_000, 2 * OPPORTUNITY_BYTES)
            ]
        );
    }

    #[test]
    fn wrong_opportunities_are_refused_with_their_line() {
        let goes_back = "line 2: the time goes back; times must not decrease";
        assert_eq!(opportunities("5\n4\n").unwrap_err(), goes_back);
        assert_eq!(
            opportunities("").unwrap_err(),
            "line 1: the trace is empty; expected lines of time_ms"
        );
        assert_eq!(
            opportunities("time_ms,packets_1500B\n0,0\n").unwrap_err(),
            "line 2: the trace has no opportunity; it needs at least one"
        );
        assert_eq!(
            opportunities("0\n0\n").unwrap_err(),
            "line 2: the trace ends at time 0; its last time is its length and must be later"
        );
        assert_eq!(
            opportunities("1,1.5\n").unwrap_err(),
            "line 1: 1.5 is not a number of packets; expected 0, 1, 2, ..."
        );
        assert_eq!(
            opportunities("-1\n").unwrap_err(),
            "line 1: the time is negative; times count from the start of the run"
        );
    }
}
