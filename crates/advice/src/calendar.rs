//! Days and times of day in a time zone.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};

use crate::settings::HistorySet;

/// Limit of every history set: ten years. Bounds the cost of a single very old sample.
const MOST_DAYS: usize = 3_653;

/// `time + duration`, clamped to the range of a timestamp.
pub(crate) fn plus(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration)
        .unwrap_or(if duration.is_negative() {
            Timestamp::MIN
        } else {
            Timestamp::MAX
        })
}

/// Converts to a signed duration; saturates.
pub(crate) fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// The instants with the local time of day of `now` on those days before today that are in `set`,
/// newest first, back to the day of `oldest`. A time of day skipped by a clock change is moved forward
/// by the length of the gap; of one that occurred twice, the first is taken.
pub(crate) fn earlier_days<'a>(
    now: Timestamp,
    oldest: Timestamp,
    time_zone: &'a TimeZone,
    set: HistorySet,
) -> impl Iterator<Item = Timestamp> + 'a {
    let local = time_zone.to_datetime(now);
    let first_day = time_zone.to_datetime(oldest).date();
    let (step, limit) = match set {
        HistorySet::All => (1, MOST_DAYS),
        HistorySet::LastDays(days) => (1, usize::from(days).min(MOST_DAYS)),
        HistorySet::SameWeekday => (7, MOST_DAYS / 7),
    };
    let back = move |day: &Date| day.checked_sub(step.days()).ok();
    std::iter::successors(back(&local.date()), back)
        .take_while(move |day| *day >= first_day)
        .take(limit)
        .filter_map(move |day| {
            let same_time = day.to_datetime(local.time());
            time_zone
                .to_ambiguous_timestamp(same_time)
                .compatible()
                .ok()
        })
}
