//! Recorded values that change over time: steps and packet opportunities.

mod text;

pub use text::{Traced, parse_opportunities, parse_steps};

use crate::units::{Duration, Time};
use text::GOES_BACK;

/// Bytes that one opportunity carries, as in mahimahi's traces.
pub const OPPORTUNITY_BYTES: u64 = 1500;

/// Why a trace is invalid, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct TraceError {
    /// Line of the text, counted from 1; the last line if the trace as a whole is wrong.
    pub line: usize,
    /// What is wrong there and what is expected.
    pub reason: String,
}

impl TraceError {
    pub(crate) fn new(line: usize, reason: impl Into<String>) -> TraceError {
        let reason = reason.into();
        TraceError { line, reason }
    }
}

/// A step function of time: each value holds until the next one starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps<V> {
    /// Nanoseconds since the start of the trace, strictly increasing from 0.
    starts: Vec<u64>,
    values: Vec<V>,
    /// Nanoseconds after which the trace repeats; 0 if the last value holds for ever.
    period: u64,
    /// See [`Steps::name`].
    name: String,
}

impl<V: Copy> Steps<V> {
    /// Steps from (start, value), shifted so that the first starts at 0. Of several values at the same
    /// time, the last counts. The last value holds for ever.
    ///
    /// # Errors
    ///
    /// If there is no value or a time goes back; `line` is the position in the list, from 1.
    pub fn new(points: impl IntoIterator<Item = (Time, V)>) -> Result<Steps<V>, TraceError> {
        let mut steps = Steps::empty();
        let mut origin = 0;
        for (position, (start, value)) in points.into_iter().enumerate() {
            if position == 0 {
                origin = start.as_nanos();
            }
            let last = steps.starts.last().copied().unwrap_or(0);
            match start.as_nanos().checked_sub(origin) {
                Some(start) if start >= last => steps.push(start, value),
                _ => return Err(TraceError::new(position + 1, GOES_BACK)),
            }
        }
        if steps.values.is_empty() {
            let reason = "the trace has no values; it needs at least one";
            return Err(TraceError::new(1, reason));
        }
        Ok(steps)
    }

    fn empty() -> Steps<V> {
        Steps {
            starts: Vec::new(),
            values: Vec::new(),
            period: 0,
            name: String::new(),
        }
    }

    /// Adds a value, which replaces the last one if that starts at the same time.
    fn push(&mut self, start: u64, value: V) {
        match self.values.last_mut() {
            Some(last) if self.starts.last() == Some(&start) => *last = value,
            _ => {
                self.starts.push(start);
                self.values.push(value);
            }
        }
    }

    /// The same steps, repeated for ever. The last value holds as long as the one before it; a trace of
    /// one value stays constant.
    pub fn repeated(mut self) -> Steps<V> {
        if let [.., before, last] = self.starts[..] {
            self.period = last.saturating_add(last - before);
        }
        self
    }

    /// The same steps, repeated every `period`.
    ///
    /// # Errors
    ///
    /// If the period ends before or when the last value starts.
    pub fn repeated_every(mut self, period: Duration) -> Result<Steps<V>, TraceError> {
        let last = *self.starts.last().expect("never empty");
        if period.as_nanos() <= last {
            let (last, lines) = (Duration::from_nanos(last), self.starts.len());
            let reason = format!("the period of {period} ends before the last value, at {last}");
            return Err(TraceError::new(lines, reason));
        }
        self.period = period.as_nanos();
        Ok(self)
    }

    /// The same values with time compressed by the factor `times`, above 0; below 1 it is stretched. Of
    /// several values that fall on the same nanosecond, the last counts.
    pub fn faster(&self, times: f64) -> Steps<V> {
        let mut steps = Steps::empty().named(&self.name);
        for (&start, &value) in self.starts.iter().zip(&self.values) {
            steps.push(sooner(start, times), value);
        }
        if self.period > 0 {
            let after_last = steps.starts[steps.starts.len() - 1] + 1;
            steps.period = sooner(self.period, times).max(after_last);
        }
        steps
    }

    /// The same steps with a name.
    pub fn named(self, name: impl Into<String>) -> Steps<V> {
        let name = name.into();
        Steps { name, ..self }
    }

    /// What people call the trace, such as its file; empty unless [`Steps::named`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value at `time`, counted from the start of the trace.
    pub fn at(&self, time: Time) -> V {
        let mut nanos = time.as_nanos();
        if self.period > 0 {
            nanos %= self.period;
        }
        self.values[self.starts.partition_point(|&start| start <= nanos) - 1]
    }

    /// All values, in order of time.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// The time-weighted mean of `number(value)` over one period. Without a period, it ends where the
    /// last value starts, which counts only if it is the only one.
    pub(crate) fn mean(&self, number: impl Fn(V) -> f64) -> f64 {
        let end = if self.period > 0 {
            self.period
        } else {
            self.starts[self.starts.len() - 1]
        };
        if end == 0 {
            return number(self.values[0]);
        }
        let ends = self.starts.iter().skip(1).copied().chain([end]);
        let spans = self
            .starts
            .iter()
            .zip(ends)
            .map(|(start, end)| (end - start) as f64);
        let area: f64 = spans
            .zip(&self.values)
            .map(|(span, &value)| span * number(value))
            .sum();
        area / end as f64
    }

    /// The time after which the trace repeats; `None` if the last value holds for ever.
    pub fn period(&self) -> Option<Duration> {
        (self.period > 0).then_some(Duration::from_nanos(self.period))
    }
}

/// Appends `bytes` at `nanos`, which is not before the last opportunity.
fn add_opportunity(list: &mut Vec<(u64, u64)>, nanos: u64, bytes: u64) {
    match list.last_mut() {
        _ if bytes == 0 => {}
        Some(last) if last.0 == nanos => last.1 += bytes,
        _ => list.push((nanos, bytes)),
    }
}

/// `nanos` divided by `times`, to the nearest nanosecond.
fn sooner(nanos: u64, times: f64) -> u64 {
    (nanos as f64 / times).round() as u64
}

/// A position in steps that only moves forward, in amortised constant time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    index: usize,
    /// Start of the current repetition, in nanoseconds.
    base: u64,
}

impl Cursor {
    /// The value at `now` and when it ends (`u64::MAX`: never). `now` must not decrease from call to
    /// call.
    #[inline]
    pub(crate) fn seek<V: Copy>(&mut self, steps: &Steps<V>, now: u64) -> (V, u64) {
        if steps.period > 0 && now.saturating_sub(self.base) >= steps.period {
            self.base += (now - self.base) / steps.period * steps.period;
            self.index = 0;
        }
        let since = now.saturating_sub(self.base);
        while steps
            .starts
            .get(self.index + 1)
            .is_some_and(|&start| start <= since)
        {
            self.index += 1;
        }
        let end = match steps.starts.get(self.index + 1) {
            Some(&start) => self.base.saturating_add(start),
            None if steps.period > 0 => self.base.saturating_add(steps.period),
            None => u64::MAX,
        };
        (steps.values[self.index], end)
    }
}

/// Times at which a link can deliver a number of bytes, repeated for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opportunities {
    /// (nanoseconds since the start of the trace, bytes); times increase, bytes are above 0.
    pub(crate) list: Vec<(u64, u64)>,
    /// Nanoseconds after which the trace repeats; not 0.
    pub(crate) period: u64,
    /// Bytes of all opportunities.
    pub(crate) bytes: u64,
    /// See [`Opportunities::name`].
    name: String,
}

impl Opportunities {
    /// Opportunities from (time, packets of 1500 bytes). As in mahimahi, times count from the start of
    /// the run and the trace repeats after its last time.
    ///
    /// # Errors
    ///
    /// If there is no opportunity, a time goes back or the last time is 0; `line` is the position in the
    /// list, from 1.
    pub fn new(points: impl IntoIterator<Item = (Time, u32)>) -> Result<Opportunities, TraceError> {
        let mut list: Vec<(u64, u64)> = Vec::new();
        let (mut period, mut total, mut count) = (0, 0, 0);
        for (position, (time, packets)) in points.into_iter().enumerate() {
            let (nanos, bytes) = (time.as_nanos(), u64::from(packets) * OPPORTUNITY_BYTES);
            count = position + 1;
            if nanos < period {
                return Err(TraceError::new(count, GOES_BACK));
            }
            period = nanos;
            total = bytes.saturating_add(total);
            add_opportunity(&mut list, nanos, bytes);
        }
        if list.is_empty() {
            let reason = "the trace has no opportunity; it needs at least one";
            return Err(TraceError::new(count.max(1), reason));
        }
        if period == 0 {
            let reason = "the trace ends at time 0; its last time is its length and must be later";
            return Err(TraceError::new(count, reason));
        }
        Ok(Opportunities {
            list,
            period,
            bytes: total,
            name: String::new(),
        })
    }

    /// The same opportunities with a name.
    pub fn named(self, name: impl Into<String>) -> Opportunities {
        let name = name.into();
        Opportunities { name, ..self }
    }

    /// What people call the trace, such as its file; empty unless [`Opportunities::named`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same bandwidth with time compressed by the factor `times`, above 0; below 1 it is stretched.
    /// Of every `times` packets, only the first remains.
    pub fn faster(&self, times: f64) -> Opportunities {
        let mut list: Vec<(u64, u64)> = Vec::new();
        let remaining = |packets: u64| (packets as f64 / times).ceil() as u64;
        let mut before = 0;
        for &(at, bytes) in &self.list {
            let after = before + bytes / OPPORTUNITY_BYTES;
            let bytes = (remaining(after) - remaining(before)) * OPPORTUNITY_BYTES;
            let at = sooner(at, times);
            before = after;
            add_opportunity(&mut list, at, bytes);
        }
        Opportunities {
            list,
            period: sooner(self.period, times).max(1),
            bytes: remaining(before) * OPPORTUNITY_BYTES,
            name: self.name.clone(),
        }
    }

    /// The time after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// Bytes offered after `from`, up to and including `to`.
    pub(crate) fn bytes_between(&self, from: Time, to: Time) -> f64 {
        let until = |time: Time| {
            let (periods, rest) = (time.as_nanos() / self.period, time.as_nanos() % self.period);
            let before = self.list.iter().take_while(|&&(at, _)| at <= rest);
            let begun: u64 = before.map(|&(_, bytes)| bytes).sum();
            periods as f64 * self.bytes as f64 + begun as f64
        };
        until(to) - until(from)
    }

    /// Mean bandwidth over the period, bits per second.
    pub fn mean_bps(&self) -> f64 {
        self.bytes as f64 * 8e9 / self.period as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps<u32> {
        let secs = Time::from_secs;
        Steps::new([(secs(10), 1), (secs(11), 2), (secs(13), 3)]).unwrap()
    }

    #[test]
    fn the_last_value_holds_for_ever() {
        assert_eq!(steps().at(Time::from_secs(1_000)), 3);
        assert_eq!(steps().period(), None);
    }

    #[test]
    fn repeated_steps_let_the_last_value_hold_as_long_as_the_one_before() {
        let steps = steps().repeated();
        assert_eq!(steps.period(), Some(Duration::from_secs(5)));
        let values = [0, 1, 2, 3, 4, 5, 6, 9, 10].map(|second| steps.at(Time::from_secs(second)));
        assert_eq!(values, [1, 2, 2, 3, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn a_period_must_contain_the_trace() {
        assert_eq!(
            steps()
                .repeated_every(Duration::from_secs(3))
                .unwrap_err()
                .to_string(),
            "line 3: the period of 3s ends before the last value, at 3s"
        );
        let steps = steps().repeated_every(Duration::from_secs(4)).unwrap();
        assert_eq!(steps.at(Time::from_secs(4)), 1);
    }

    #[test]
    fn of_two_values_at_the_same_time_the_second_counts() {
        let steps = Steps::new([(Time::ZERO, 1), (Time::ZERO, 2)]).unwrap();
        assert_eq!(steps.values(), [2]);
    }

    #[test]
    fn faster_steps_have_the_same_values_sooner() {
        let steps = steps().repeated().faster(10.0);
        assert_eq!(steps.period(), Some(Duration::from_millis(500)));
        let at = |millis| steps.at(Time::from_millis(millis));
        assert_eq!(
            [0, 99, 100, 299, 300, 499, 500].map(at),
            [1, 1, 2, 2, 3, 3, 1]
        );
        let slower = steps.faster(0.1);
        assert_eq!(slower.at(Time::from_millis(999)), 1);
        assert_eq!(slower.at(Time::from_millis(1000)), 2);
    }

    #[test]
    fn of_steps_that_become_one_the_last_counts() {
        let nanos = Time::from_nanos;
        let steps = Steps::new([(nanos(0), 1), (nanos(1), 2), (nanos(1000), 3)]).unwrap();
        assert_eq!(steps.repeated().faster(1000.0).values(), [2, 3]);
    }

    #[test]
    fn faster_opportunities_keep_the_bandwidth() {
        // Three packets each ten milliseconds, for a second.
        let each = |n: u64| (Time::from_millis(10 * n), 3);
        let trace = Opportunities::new((1..=100).map(each)).unwrap();
        for (times, period) in [(10.0, 100), (3.0, 333), (0.5, 2000)] {
            let scaled = trace.faster(times);
            assert_eq!(scaled.period().as_nanos() / 1_000_000, period);
            let change = scaled.mean_bps() / trace.mean_bps();
            assert!((0.999..1.001).contains(&change), "{times}: {change}");
        }
        // The first, eleventh, 21st, ... packet: after 10, 40, 70 ms, a tenth of it.
        let first: Vec<_> = trace.faster(10.0).list[..3].to_vec();
        assert_eq!(
            first,
            [(1_000_000, 1500), (4_000_000, 1500), (7_000_000, 1500)]
        );
    }

    #[test]
    fn one_opportunity_always_remains() {
        let trace = Opportunities::new([(Time::from_millis(5), 1)]).unwrap();
        assert_eq!(trace.faster(1000.0).list, [(5_000, 1500)]);
    }

    #[test]
    fn a_cursor_agrees_with_looking_up_each_time() {
        for steps in [steps(), steps().repeated()] {
            let mut cursor = Cursor::default();
            for millis in (0..60_000).step_by(250) {
                let now = Time::from_millis(millis);
                let (value, end) = cursor.seek(&steps, now.as_nanos());
                assert_eq!(value, steps.at(now), "at {now}");
                assert!(end > now.as_nanos());
                let just_before = Time::from_nanos(end - 1);
                assert_eq!(value, steps.at(just_before), "before {end}");
            }
        }
    }
}
