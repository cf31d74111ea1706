//! The transfers of the thesis, from the words of the plan.

use fairwind_advice::HistorySet;

use crate::demo::story::Way;
use crate::plan::{Parameter, Run, Values};

/// What a run of the plan has: a transfer beside `others` other connections.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::new("others", Values::Whole(0, 2)),
    Parameter::new("way", Values::Words(&WAYS)),
    Parameter::new("level", Values::Words(&LEVELS)),
    Parameter::new("time", Values::Words(&TIMES)),
    Parameter::new("losses", Values::Words(&LOSSES_TAKEN)),
    Parameter::new("server", Values::Words(&SERVERS)),
];

/// Ways to send a file: those of the thesis, of which the advised ones are named after the history that they know,
/// and in the background by two settings.
const WAYS: [&str; 7] = [
    "standard",
    "nocc",
    "all history",
    "same weekday",
    "last week",
    "background",
    "strict background",
];
/// Least use of the path in percent, in the order of the levels of the thesis.
pub(crate) const LEVELS: [&str; 3] = ["45", "60", "75"];
/// Local times of day of the tests.
pub(crate) const TIMES: [&str; 5] = ["00:15", "03:25", "07:25", "14:25", "21:10"];
/// Words of [`Losses`].
const LOSSES_TAKEN: [&str; 2] = ["rounded", "exact"];

/// Words of [`Server`].
const SERVERS: [&str; 2] = ["fairwind", "proftpd"];

/// The history sets of Tables 20 to 27.
pub(crate) const HISTORY_SETS: [HistorySet; 3] = [
    HistorySet::All,
    HistorySet::SameWeekday,
    HistorySet::LastDays(7),
];

/// How an emulator applies a loss it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Losses {
    /// Rounded to the nearest of 65,536 parts, as the thesis' emulator did, judging by all its tables.
    Rounded,
    /// Unchanged.
    Exact,
}

/// Who serves the file in the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// `fairwind serve`.
    Fairwind,
    /// ProFTPD, which the thesis changed, with this project's module.
    Proftpd,
}

/// The transfer of a run, and the server that makes it: the first if the plan does not say.
pub(crate) fn served(run: &Run) -> (Server, Case) {
    let server = match run.get("server") {
        "proftpd" => Server::Proftpd,
        _ => Server::Fairwind,
    };
    (server, Case::of(run))
}

/// The parameters of the congestion control of a transfer in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Usual,
    /// No queue but that of a packet is tolerated.
    Strict,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Other connections beside it.
    pub others: usize,
    /// Index in the levels of congestion.
    pub level: usize,
    /// Index in the times of day.
    pub time: usize,
    pub way: Way,
    pub setting: Setting,
    /// The history that the advisor knows.
    pub history: HistorySet,
    /// How the emulator applies the losses it is given.
    pub losses: Losses,
}

impl Case {
    /// The standard transfer beside so many others, over a path of this level, at this time of day.
    pub(crate) fn at(others: usize, level: usize, time: usize, losses: Losses) -> Case {
        Case {
            others,
            level,
            time,
            way: Way::Standard,
            setting: Setting::Usual,
            history: HISTORY_SETS[0],
            losses,
        }
    }

    /// The same by another way.
    pub(crate) fn by(self, way: Way) -> Case {
        Case { way, ..self }
    }

    /// The same in the background.
    pub(crate) fn ours(self) -> Case {
        self.by(Way::Background)
    }

    /// The same in the background, by the strict setting.
    pub(crate) fn strict(self) -> Case {
        Case {
            setting: Setting::Strict,
            ..self.ours()
        }
    }

    /// The transfer of a run; what the plan does not say is the first of its kind.
    pub(crate) fn of(run: &Run) -> Case {
        let index = |words: &[&str], parameter| {
            let word = run.get(parameter);
            words.iter().position(|known| *known == word).unwrap_or(0)
        };
        let (way, history) = match index(&WAYS, "way") {
            0 => (Way::Standard, 0),
            1 => (Way::Nocc, 0),
            5 | 6 => (Way::Background, 0),
            advised => (Way::Advised, advised - 2),
        };
        let setting = match run.get("way") {
            "strict background" => Setting::Strict,
            _ => Setting::Usual,
        };
        Case {
            others: run.get("others").parse().unwrap_or(0),
            level: index(&LEVELS, "level"),
            time: index(&TIMES, "time"),
            way,
            setting,
            history: HISTORY_SETS[history],
            losses: [Losses::Rounded, Losses::Exact][index(&LOSSES_TAKEN, "losses")],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::results::Results;
    use super::super::thesis::Thesis;
    use super::*;
    use crate::Plan;

    fn plan() -> Plan {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        Plan::read(&experiments, "dccs").unwrap()
    }

    #[test]
    fn the_words_are_those_of_the_thesis() {
        let thesis: Thesis = plan().data().unwrap();
        let levels = thesis.level.map(|level| level.used_percent.to_string());
        assert_eq!(levels, LEVELS);
    }

    /// The transfers that this server makes.
    fn cases(plan: &Plan, server: Server) -> Vec<Case> {
        let transfers = plan.runs.iter().map(served);
        let of_server = transfers.filter(|(by, _)| *by == server);
        of_server.map(|(_, case)| case).collect()
    }

    #[test]
    fn the_thesis_prints_every_transfer_with_rounded_losses_once() {
        let plan = plan();
        let thesis: Thesis = plan.data().unwrap();
        let printed: Vec<Case> = Results::of_thesis(&thesis)
            .transfers
            .iter()
            .map(|t| t.case)
            .collect();
        let mut cases = cases(&plan, Server::Fairwind);
        cases.retain(|case| case.losses == Losses::Rounded && case.way != Way::Background);
        assert_eq!(printed.len(), cases.len());
        for case in cases {
            assert!(printed.contains(&case), "{case:?}");
        }
    }

    #[test]
    fn the_plan_has_every_transfer_of_the_thesis_once() {
        let cases = cases(&plan(), Server::Fairwind);
        // Four ways at three levels alone, and five at one beside one and two; two more history sets; and the
        // first again with exact losses, alone and beside one.
        assert_eq!(cases.len(), 5 * (4 * 3 + 2 * 5 + 2 * 3 + 4 * 3 + 5));
        for (at, case) in cases.iter().enumerate() {
            assert!(!cases[..at].contains(case), "{case:?}");
        }
    }
}
