//! `fairwind demo`: fairwind's main use, in one command.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_experiment::execute::is_working_folder;
use fairwind_study::demo::lab::{Arrival, SITE_FOLDER, has_curl, missing};
use fairwind_study::demo::network::TRAFFIC_FILE;
use fairwind_study::demo::stage::{Outcomes, show};
use fairwind_study::demo::story::{Route, Way};
use fairwind_study::demo::{Story, monitor, report, table};
use jiff::Timestamp;

use crate::failure::Failure;
use crate::progress::Bar;
use crate::words::{Word, one_of};
use crate::{interrupt, output};

/// Move a file over a shared long path: standard, without congestion control, advised, in the background
///
/// Two sites are joined by a path that other connections share; by default it has 100 Mbit/s and 50 ms, and the
/// others' traffic follows a day's curve. The file is moved by `fairwind get` from `fairwind serve`, on this machine's TCP over an
/// emulated path: by standard TCP, with congestion control switched off throughout, switched off
/// and on by the advice of `fairwind advisor`, which knows nine weeks of the path's history, and in the
/// background, where the advisor's path has that mode. At last curl, an unmodified program, sends it behind
/// `fairwind run --background`. Prints a table and names an HTML report. Where the kernel or the permissions for
/// that are missing, says so and does the same in the simulator.
#[derive(Args)]
#[command(after_help = "\
Takes four minutes as root, eight with --path long, --quick a half of that or less; in the simulator seconds.
The same seed gives the same day, the same file and, in the simulator, the same numbers.

Examples:
  fairwind demo
  fairwind demo --quick --seed 7 --out seven
  fairwind demo --path long
  fairwind demo --sim")]
pub(crate) struct Demo {
    /// Path between the sites
    #[arg(long, value_name = "PATH", value_parser = one_of(ROUTES), default_value = "day")]
    path: Route,
    /// Seed of the day, of the file and of all random choices
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Folder for report and results
    #[arg(long, value_name = "DIR", default_value = "demo.result")]
    out: PathBuf,
    /// Replace an earlier result; a folder that holds anything else is refused
    #[arg(long)]
    force: bool,
    /// Run a shorter demonstration, with a smaller file
    #[arg(long)]
    quick: bool,
    /// Use the simulator, whatever this machine can do
    #[arg(long)]
    sim: bool,
    /// Tell an advisor of the tests in this file, when their time has come, and do nothing else: what the
    /// demonstration starts itself with, in the lab
    #[arg(long, value_names = ["FILE", "URL", "TIME", "FACTOR"], num_args = 4, hide = true)]
    tests: Vec<String>,
}

impl Demo {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let [file, advisor, start, rate] = &self.tests[..] {
            let start: Timestamp = start.parse().map_err(Failure::input)?;
            let rate: f64 = rate.parse().map_err(Failure::input)?;
            return Ok(monitor::run(file.as_ref(), advisor, start, rate)?);
        }
        let story = if self.quick {
            Story::quick(self.path, self.seed)
        } else {
            Story::full(self.path, self.seed)
        };
        make_room(&self.out, self.force)?;
        interrupt::catch()?;
        let missing = if self.sim { Vec::new() } else { missing() };
        let in_lab = !self.sim && missing.is_empty();
        output::line(&introduction(&story, in_lab, &missing))?;
        let bar = Bar::new(1);
        let fairwind = in_lab.then(std::env::current_exe).transpose()?;
        let outcomes = show(story, fairwind, &self.out, &bar);
        bar.clear();
        let outcomes = outcomes.map_err(|error| match error {
            fairwind_study::Error::Stopped => Failure::nothing_kept(),
            other => other.into(),
        })?;
        let page = report::write(&outcomes, &missing, &self.out)?;
        let printed = output::line(&format!(
            "{}{}",
            table::text(&outcomes),
            closing(&outcomes, &page)
        ));
        judge(&outcomes)?;
        Ok(printed?)
    }
}

const ROUTES: &[Word<Route>] = &[
    (
        "day",
        "100 Mbit/s and 50 ms; others want what the day's curve leaves to them",
        Route::Day,
    ),
    (
        "long",
        "200 Mbit/s and 100 ms, where 0.01 % of the packets are lost by chance; others want 40 Mbit/s",
        Route::Long,
    ),
];

fn introduction(story: &Story, in_lab: bool, missing: &[String]) -> String {
    let mut text = String::new();
    for reason in missing {
        text.push_str(&format!("missing: {reason}\n"));
    }
    if in_lab && !has_curl() {
        text.push_str("missing: curl, the unmodified program; `scripts/setup demo` installs it\n");
    }
    let place = if in_lab {
        let runs = Way::ALL.len() - usize::from(!has_curl());
        format!("on this kernel, {runs} runs of {} s", story.length_s)
    } else {
        "in the simulator".to_owned()
    };
    text.push_str(&format!(
        "{} MB over {} Mbit/s and {} ms (round trip), shared with others; {} to {}, {place}\n",
        story.file_bytes / 1_000_000,
        story.route.capacity_mbps(),
        2 * story.route.delay_ms(),
        story.begins.strftime("%H:%M"),
        story.time_at(story.length_s).strftime("%H:%M"),
    ));
    text
}

fn closing(outcomes: &Outcomes, page: &Path) -> String {
    let warnings = outcomes.ways.iter().flat_map(|outcome| {
        let all = outcome
            .measured
            .warnings
            .iter()
            .chain(&outcome.advised.refused);
        all.map(|warning| format!("warning: {}: {warning}\n", outcome.way.words()))
    });
    format!(
        "{}report: {}\n",
        warnings.collect::<String>(),
        page.display()
    )
}

/// A file that did not arrive, or differs from what was sent, is a failure.
fn judge(outcomes: &Outcomes) -> Result<(), Failure> {
    let ended = outcomes.ways.iter();
    let ended = ended.filter(|outcome| !outcome.is_under_way());
    let failures = ended.filter_map(|outcome| {
        let what = match (outcome.file?, &outcome.measured.transfer) {
            (Arrival::Identical, _) => return None,
            (Arrival::Differs, _) => "the file that arrived is not the file that was sent",
            (Arrival::Missing, Some(_)) => "the file did not arrive",
            (Arrival::Missing, None) => "the transfer never began",
        };
        Some(format!("{}: {what}", outcome.way.words()))
    });
    match failures.collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        failures => Err(Failure::work(failures.join("; "))),
    }
}

/// Makes an empty folder. What an earlier demonstration left there is removed if `force` is set, anything else
/// never.
fn make_room(out: &Path, force: bool) -> Result<(), Failure> {
    let named = Failure::at(out);
    let refuse = |why: String| {
        let help = "help: name another folder with --out";
        Err(Failure::input(format!("{} {why}\n  {help}", out.display())))
    };
    let entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return fs::create_dir_all(out).map_err(named);
        }
        Err(error) => return Err(named(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(named)?.file_name());
    }
    if names.is_empty() {
        return Ok(());
    }
    // Every demonstration writes it first.
    if !names.iter().any(|name| name == TRAFFIC_FILE) {
        return refuse("is in the way: it holds no result of a demonstration".to_owned());
    }
    if let Some(name) = names.iter().find(|name| !is_ours(name)) {
        return refuse(format!(
            "is in the way: it holds `{}`, which is of no demonstration",
            name.display()
        ));
    }
    if !force {
        return refuse("holds a result already; --force replaces it".to_owned());
    }
    fs::remove_dir_all(out)
        .and_then(|()| fs::create_dir_all(out))
        .map_err(named)
}

/// Whether a demonstration creates a file or folder of this name in its folder.
fn is_ours(name: &OsStr) -> bool {
    let of_way = |way: Way| {
        let folder = way.folder();
        name == folder
            || name == OsStr::new(&format!("{folder}.advice.jsonl"))
            || is_working_folder(name, OsStr::new(folder))
    };
    [report::FILE, TRAFFIC_FILE, SITE_FOLDER].contains(&name.to_str().unwrap_or_default())
        || Way::ALL.into_iter().any(of_way)
}

#[cfg(test)]
mod tests {
    use fairwind_study::demo::advised::Advised;
    use fairwind_study::demo::day::Day;
    use fairwind_study::demo::measure::{Measured, Transfer};
    use fairwind_study::demo::stage::Outcome;

    use super::*;

    /// A run of which the others received so many bytes a second.
    fn measured(others_bytes_per_s: f64, transfer: Option<Transfer>) -> Measured {
        Measured {
            transfer,
            others: vec![(0.0, 0.0), (10.0, 10.0 * others_bytes_per_s)],
            complete: true,
            ..Measured::default()
        }
    }

    /// A connection that carried so many bytes by this time.
    fn transfer(bytes: u64, end_s: f64) -> Option<Transfer> {
        Some(Transfer {
            bytes,
            start_s: 2.0,
            end_s,
            retransmits: 7,
            ..Transfer::default()
        })
    }

    /// What came of the file by standard TCP, without congestion control and advised; alone the others receive
    /// 10 MB/s.
    fn outcomes(of_transfers: [(Measured, Arrival); 3]) -> Outcomes {
        let story = Story::quick(Route::Day, 1);
        let outcome = |way, measured, file| Outcome {
            way,
            measured,
            advised: Advised::default(),
            file,
            experiment: String::new(),
        };
        let alone = outcome(Way::Nobody, measured(1e7, None), None);
        let transfers = [Way::Standard, Way::Nocc, Way::Advised];
        let beside = transfers.into_iter().zip(of_transfers);
        let beside = beside.map(|(way, (measured, file))| outcome(way, measured, Some(file)));
        Outcomes {
            day: Day::of(&story),
            story,
            ways: [alone].into_iter().chain(beside).collect(),
            engine: "lab",
        }
    }

    fn failure(outcomes: &Outcomes) -> String {
        match judge(outcomes) {
            Err(Failure::Work(what)) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_transfer_that_never_began_has_no_numbers_and_costs_the_others_nothing() {
        let never = || (measured(2e6, None), Arrival::Missing);
        let outcomes = outcomes([never(), never(), never()]);
        let expected = "\
transfer         Mbit/s  of spare %  took s  others lost %  others lost MB  retransmits  changes  checksum
standard TCP          -           -       -              -               -            -        0  none arrived
NOCC throughout       -           -       -              -               -            -        0  none arrived
advised               -           -       -              -               -            -        0  none arrived
";
        assert_eq!(table::text(&outcomes), expected);
        assert_eq!(
            failure(&outcomes),
            "standard TCP: the transfer never began; NOCC throughout: the transfer never began; \
             advised: the transfer never began"
        );
        let folder = tempfile::tempdir().unwrap();
        let report = report::write(&outcomes, &[], folder.path()).unwrap();
        let report = fs::read_to_string(report).unwrap();
        assert_eq!(report.matches("none arrived").count(), 3);
        assert!(!report.contains("DIFFERS"));
    }

    #[test]
    fn what_the_others_lost_is_told_of_whole_runs_only() {
        let whole = (measured(9e6, transfer(26_000_000, 6.0)), Arrival::Identical);
        let mut early = (measured(2e6, transfer(13_000_000, 4.0)), Arrival::Differs);
        early.0.complete = false;
        let unfinished = (measured(1e7, transfer(1_000_000, 4.0)), Arrival::Missing);
        let outcomes = outcomes([whole, early, unfinished]);
        // 26 MB from 2 s to 6 s; meanwhile the others receive 36 MB instead of 40, in 10 s 90 instead of 100. They
        // leave 96.5 - 80 Mbit/s.
        let expected = "\
transfer         Mbit/s  of spare %  took s  others lost %  others lost MB  retransmits  changes  checksum
standard TCP       52.0         315     4.0           10.0            10.0            7        0  identical
NOCC throughout    52.0         315       -              -               -            7        0  DIFFERS
advised             4.0          24       -            0.0             0.0            7        0  none arrived
";
        assert_eq!(table::text(&outcomes), expected);
        assert_eq!(
            failure(&outcomes),
            "NOCC throughout: the file that arrived is not the file that was sent; \
             advised: the file did not arrive"
        );
    }

    #[test]
    fn a_transfer_in_the_background_may_still_be_under_way() {
        let whole = || (measured(1e7, transfer(26_000_000, 6.0)), Arrival::Identical);
        let mut outcomes = outcomes([whole(), whole(), whole()]);
        outcomes.ways.push(Outcome {
            way: Way::Background,
            measured: measured(1e7, transfer(20_000_000, 10.0)),
            advised: Advised::default(),
            file: Some(Arrival::Missing),
            experiment: String::new(),
        });
        let text = table::text(&outcomes);
        let last = text.lines().last().unwrap();
        assert!(
            last.ends_with("0.0             0.0            7        0  under way"),
            "{last}"
        );
        judge(&outcomes).unwrap();
    }

    #[test]
    fn only_results_are_replaced_and_only_if_that_is_wished() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        make_room(&out, false).unwrap();
        fs::write(out.join("thesis.pdf"), "").unwrap();
        assert!(matches!(make_room(&out, true), Err(Failure::Input(_))));
        let refused = |force| matches!(make_room(&out, force), Err(Failure::Input(_)));
        fs::remove_file(out.join("thesis.pdf")).unwrap();
        // A common name, and no result.
        fs::create_dir(out.join(SITE_FOLDER)).unwrap();
        assert!(refused(true));
        for name in [report::FILE, TRAFFIC_FILE, "advised.advice.jsonl"] {
            fs::write(out.join(name), "").unwrap();
        }
        fs::create_dir(out.join(Way::Nobody.folder())).unwrap();
        // A run that was killed left it.
        fs::create_dir(out.join(".nocc.unfinished-1a2b3c")).unwrap();
        assert!(refused(false));
        for not_ours in ["thesis.pdf", ".nocc.unfinished-notes"] {
            fs::write(out.join(not_ours), "").unwrap();
            assert!(refused(true));
            fs::remove_file(out.join(not_ours)).unwrap();
        }
        make_room(&out, true).unwrap();
        assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
    }
}
