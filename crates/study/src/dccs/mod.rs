//! The tests of Akarapu's thesis on dynamic TCP congestion control (Tables 1 to 27): in the simulator, over a
//! generated curve of available bandwidth and a recorded one, and those of Tables 3 to 18 scaled down on the
//! running kernel. Their tables are on `docs/measurements/advised-transfers.md`.

mod bench;
mod case;
mod figures;
mod following;
mod relation;
mod results;
mod scaled;
mod series;
mod tables;
mod thesis;

use std::cell::OnceCell;
use std::fs;
use std::time::Instant;

use serde_json::json;

use crate::cache::{Policy, program};
use crate::demo::lab::missing;
use crate::page::{self, Section};
use crate::table::Table;
use crate::{Engines, Error, Made, Study, Task, parallel};

use bench::Bench;
use case::{Case, LEVELS, Server, TIMES};
use relation::Relation;
use results::{Results, Transfer};
use series::Series;
use tables::Tables;
use thesis::Thesis;

pub(crate) const STUDY: Study = Study::new(case::PARAMETERS, carry_out);

/// Makes the transfers of the thesis' size in the simulator, or those scaled down in simulator and lab.
///
/// # Errors
/// If a transfer fails, or the lab cannot run here.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let thesis: Thesis = task.plan.data()?;
    let transfers: Vec<(Server, Case)> = task.runs.iter().map(case::served).collect();
    let of_fairwind = transfers
        .iter()
        .filter(|(server, _)| *server == Server::Fairwind);
    let cases: Vec<Case> = of_fairwind.map(|(_, case)| *case).collect();
    let is_simulated = task.engines == Engines::Sim;
    if is_simulated && cases.is_empty() {
        let what = "ProFTPD serves in the lab alone\n  help: --engine lab";
        return Err(Error::input(what));
    }
    let (table_1, relation) = tables::table_1(&thesis, observed(task, "2005")?);
    if is_simulated {
        simulated(task, &thesis, &cases, table_1, relation)
    } else {
        in_lab(task, &thesis, &transfers, relation)
    }
}

/// The throughputs of Table 1 with this stack, at delays of 25 and 50 ms, Mbit/s.
fn observed(task: &Task<'_>, stack: &str) -> Result<[[f64; 4]; 2], Error> {
    let file = task.plan.folder.join("table-1.toml");
    let text = fs::read_to_string(&file).map_err(Error::at(&file))?;
    let asked = json!({ "experiment": text, "stack": stack, "program": program() });
    let run = || -> Result<[[f64; 4]; 2], Error> {
        let at = |delay_ms| Bench::table_1(&task.plan.folder, delay_ms, stack);
        Ok([at(25.0)?, at(50.0)?])
    };
    let kept = task
        .cache("")
        .kept_or_run(&format!("table-1-{stack}"), &asked, run)?;
    match kept {
        Some(observed) => Ok(observed),
        // Everything else follows from it.
        None => run(),
    }
}

/// The tables and figures of transfers of the thesis' size.
fn simulated(
    task: &Task<'_>,
    thesis: &Thesis,
    cases: &[Case],
    table_1: Section,
    relation: Relation,
) -> Result<Made, Error> {
    let bench = Bench {
        experiments: task.plan.folder.clone(),
        results: task.out.to_owned(),
        cache: task.cache(""),
        scale: task.scale(),
        relation,
        levels: &thesis.level,
    };
    let alone = [Some(bench.others_alone(1)?), Some(bench.others_alone(2)?)];
    let all_series = all_series(task)?;
    let transfers = transfers(task, &bench, &all_series, cases)?;
    let results = all_series
        .iter()
        .zip(transfers)
        .map(|(series, transfers)| Results {
            name: series.name.to_owned(),
            transfers,
            alone,
            thesis: None,
        });
    let all = &[Results::of_thesis(thesis)]
        .into_iter()
        .chain(results)
        .collect::<Vec<_>>();
    let tables = Tables { thesis, all };
    let mut made = Made {
        sections: [vec![table_1], tables.whole()].concat(),
        ..Made::default()
    };
    figures::draw(&tables, &task.plan.name, "", &mut made);
    figures::answers(&tables, &all_series, &task.plan.name, &mut made)?;
    made.sections.push(page::made("run"));
    made.runs = Some(runs(task, all));
    Ok(made)
}

/// The tables and figures of the scaled-down tests.
fn in_lab(
    task: &Task<'_>,
    thesis: &Thesis,
    transfers: &[(Server, Case)],
    relation: Relation,
) -> Result<Made, Error> {
    let relation_here = tables::fit(observed(task, "linux")?);
    let missing = missing();
    if task.options.policy != Policy::Nothing && !missing.is_empty() {
        let missing = missing.join("\n");
        let help = "help: --engine sim needs none of it";
        return Err(Error::work(format!("{missing}\n  {help}")));
    }
    let small = scaled::Small {
        task,
        results: task.out.join("scaled"),
        cache: task.cache("scaled"),
        relation,
        relation_here,
        series: Series::generated()?,
        levels: &thesis.level,
        proftpd: OnceCell::new(),
    };
    let all = &[vec![Results::of_thesis(thesis)], small.run_all(transfers)?]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    let tables = Tables { thesis, all };
    let mut made = Made {
        sections: scaled::tables::all(&tables, relation_here),
        ..Made::default()
    };
    figures::draw(&tables, &task.plan.name, " lab", &mut made);
    made.sections.push(page::made("lab run"));
    made.runs = Some(runs(task, all));
    Ok(made)
}

/// All transfers.
fn runs(task: &Task<'_>, all: &[Results<'_>]) -> Table {
    let parameters = ["others", "way", "level", "time", "losses"];
    let mut table = Table::new(
        "series | others | way | level | time | losses | mbps | seconds | others_mbps | answers",
    );
    for results in all.iter().filter(|results| results.thesis.is_none()) {
        for transfer in &results.transfers {
            let run = task.runs.iter().find(|run| Case::of(run) == transfer.case);
            let Some(run) = run else { continue };
            let words = parameters.map(|parameter| run.get(parameter).to_owned());
            let others_mbps = transfer.others_mbps.iter().map(|mbps| format!("{mbps:.2}"));
            let cells = [
                format!("{:.2}", transfer.mbps),
                format!("{:.1}", transfer.seconds),
                others_mbps.collect::<Vec<_>>().join(" "),
                transfer.inputs.clone(),
            ];
            table.row([&results.name].into_iter().chain(&words).chain(&cells));
        }
    }
    table
}

fn all_series(task: &Task<'_>) -> Result<Vec<Series>, Error> {
    let mut all = vec![Series::generated()?];
    match &task.options.recorded {
        Some(file) => all.push(Series::recorded(file).map_err(|error| {
            Error::input(format!("{error}\n  help: name it with --recorded FILE"))
        })?),
        None => task.tell(
            "the recorded series `thesis_like` is not part of fairwind: without --recorded FILE the generated \
             one runs alone",
        ),
    }
    Ok(all)
}

/// Runs all transfers over every series, several at a time, and returns those of each series.
fn transfers(
    task: &Task<'_>,
    bench: &Bench<'_>,
    all: &[Series],
    cases: &[Case],
) -> Result<Vec<Vec<Transfer>>, Error> {
    // Transfers that may turn out to equal others come after them in the plan.
    let work: Vec<(usize, Case)> = cases
        .iter()
        .flat_map(|case| (0..all.len()).map(move |series| (series, *case)))
        .collect();
    let jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    let made = parallel::each(&work, jobs, |&(series, case)| {
        task.host.go_on()?;
        let begun = Instant::now();
        let Some((transfer, timeouts)) = bench.run(&all[series], case)? else {
            return Ok(None);
        };
        task.tell(&format!(
            "{} {:?} {:?} used {} % at {} beside {}: {:.2} Mbit/s, others {:.2?}, told {:?}, {timeouts} \
             timeouts ({:.0} s)",
            all[series].name,
            case.way,
            case.losses,
            LEVELS[case.level],
            TIMES[case.time],
            case.others,
            transfer.mbps,
            transfer.others_mbps,
            transfer.inputs,
            begun.elapsed().as_secs_f64()
        ));
        Ok(Some((series, transfer)))
    })?;
    let mut transfers = vec![Vec::new(); all.len()];
    for (series, transfer) in made.into_iter().flatten() {
        transfers[series].push(transfer);
    }
    Ok(transfers)
}
