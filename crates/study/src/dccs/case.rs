//! The transfers of the thesis, from the words of the plan.

use fairwind_advice::HistorySet;

use super::relation::Losses;
use super::tables::HISTORY_SETS;
use crate::plan::Run;

/// Names of the parameters.
pub const OTHERS: &str = "others";
pub const WAY: &str = "way";
pub const LEVEL: &str = "level";
pub const TIME: &str = "time";
pub const LOSSES: &str = "losses";

/// Words of [`Way`]: the advised ones are named after the history that they know.
pub const WAYS: [&str; 5] = [
    "standard",
    "nocc",
    "all history",
    "same weekday",
    "last week",
];
/// Least use of the path in percent, in the order of [`LEVELS`](super::thesis::LEVELS).
pub const LEVELS: [&str; 3] = ["45", "60", "75"];
/// In the order of [`TIMES`](super::thesis::TIMES).
pub const TIMES: [&str; 5] = ["00:15", "03:25", "07:25", "14:25", "21:10"];
/// Words of [`Losses`].
pub const LOSSES_TAKEN: [&str; 2] = ["rounded", "exact"];

/// How a file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Standard,
    Nocc,
    Advised(HistorySet),
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Other connections beside it.
    pub others: usize,
    /// Index in the levels of congestion.
    pub level: usize,
    /// Index in the times of day.
    pub time: usize,
    pub way: Way,
    /// How the emulator applies the losses it is given.
    pub losses: Losses,
}

impl Case {
    /// The transfer of a run; what the plan does not say is the first of its kind.
    pub fn of(run: &Run) -> Case {
        let index = |words: &[&str], parameter| {
            let word = run.get(parameter);
            words.iter().position(|known| *known == word).unwrap_or(0)
        };
        let [all, same_weekday, last_week] = HISTORY_SETS.map(Way::Advised);
        let ways = [Way::Standard, Way::Nocc, all, same_weekday, last_week];
        Case {
            others: run.get(OTHERS).parse().unwrap_or(0),
            level: index(&LEVELS, LEVEL),
            time: index(&TIMES, TIME),
            way: ways[index(&WAYS, WAY)],
            losses: [Losses::Rounded, Losses::Exact][index(&LOSSES_TAKEN, LOSSES)],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::thesis;
    use super::*;
    use crate::Plan;

    #[test]
    fn the_words_are_those_of_the_thesis() {
        let levels = thesis::LEVELS.map(|level| level.used_percent.to_string());
        assert_eq!(levels, LEVELS);
        let times = thesis::TIMES.map(|(hour, minute)| format!("{hour:02}:{minute:02}"));
        assert_eq!(times, TIMES);
    }

    #[test]
    fn the_plan_has_every_transfer_of_the_thesis_once() {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let plan = Plan::read(&experiments, "dccs").unwrap();
        let cases: Vec<Case> = plan.runs.iter().map(Case::of).collect();
        // Three ways at three levels alone and at one beside one and two; two more history sets; and the
        // first again with exact losses, alone and beside one.
        assert_eq!(cases.len(), 5 * (3 * 3 + 2 * 3 + 2 * 3 + 3 * 3 + 3));
        for (at, case) in cases.iter().enumerate() {
            assert!(!cases[..at].contains(case), "{case:?}");
        }
    }
}
