//! Which hops decide the advice: declared ones, those that are tested regularly, and, if there are
//! none of these, the results of Fairwind's transfers.

use jiff::{SignedDuration, Timestamp};

use crate::calendar::signed;
use crate::history::{History, Hop, Role};
use crate::settings::Settings;

/// The usual interval of a hop is the median of this many intervals between its newest tests.
const USUAL_GAPS: usize = 32;
/// A hop that has been silent for this many times its usual interval is no longer monitored.
const SILENT_AFTER_GAPS: i32 = 12;

/// The hops of a path at one time.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    /// The hops that decide.
    pub deciding: Vec<&'a Hop>,
    /// The hops that fell silent and no longer decide, with the age of their newest tests.
    pub silent: Vec<(&'a Hop, SignedDuration)>,
}

impl<'a> Watched<'a> {
    pub(crate) fn at(history: &'a History, now: Timestamp, settings: &Settings) -> Watched<'a> {
        let stale_after = signed(settings.stale_after);
        let mut watched = Watched {
            deciding: Vec::new(),
            silent: Vec::new(),
        };
        let mut transfers = Vec::new();
        for hop in &history.hops {
            let age = age(hop, now);
            match (hop.role(), age) {
                (Role::Declared, _) => watched.deciding.push(hop),
                (Role::Found, None) => {}
                (Role::Found, Some(age)) if age > patience(hop, now, settings) => {
                    watched.silent.push((hop, age));
                }
                (Role::Found, Some(_)) => watched.deciding.push(hop),
                (Role::Transfers, Some(age)) if age <= stale_after => watched.deciding.push(hop),
                (Role::Transfers, _) => transfers.push(hop),
                (Role::Makeshift, None) => {}
                (Role::Makeshift, Some(_)) => transfers.push(hop),
            }
        }
        if watched.deciding.is_empty() {
            watched.deciding = transfers;
        }
        if watched.deciding.is_empty() {
            watched.recall_the_last();
        }
        watched
    }

    /// If no other hop is left, the one that fell silent last decides. As its test is stale, the path
    /// counts as congested.
    fn recall_the_last(&mut self) {
        let ages = self.silent.iter().enumerate();
        if let Some((last, _)) = ages.min_by_key(|(_, (_, age))| *age) {
            let (hop, _) = self.silent.remove(last);
            self.deciding.push(hop);
        }
    }
}

/// The names of the hops that decide the advice at `now`.
pub fn deciding<'a>(history: &'a History, now: Timestamp, settings: &Settings) -> Vec<&'a str> {
    let watched = Watched::at(history, now, settings);
    let names = watched.deciding.iter().map(|hop| hop.name.as_str());
    names.collect()
}

fn age(hop: &Hop, now: Timestamp) -> Option<SignedDuration> {
    let newest = hop.samples().until(now).last()?;
    Some(now.duration_since(newest.time))
}

/// How long a [`Role::Found`] hop may be silent.
fn patience(hop: &Hop, now: Timestamp, settings: &Settings) -> SignedDuration {
    let stale_after = signed(settings.stale_after);
    match habit(hop, now) {
        Some(habit) => stale_after.max(habit.saturating_mul(SILENT_AFTER_GAPS)),
        None => stale_after,
    }
}

/// The usual interval between tests; None for a hop with fewer than three tests.
fn habit(hop: &Hop, now: Timestamp) -> Option<SignedDuration> {
    let newest_first = hop.samples().until(now).iter().rev();
    let times: Vec<Timestamp> = newest_first.take(USUAL_GAPS + 1).map(|s| s.time).collect();
    let mut gaps: Vec<SignedDuration> = times
        .windows(2)
        .map(|pair| pair[0].duration_since(pair[1]))
        .collect();
    if gaps.len() < 2 {
        return None;
    }
    gaps.sort_unstable();
    Some(gaps[gaps.len() / 2])
}
