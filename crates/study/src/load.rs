//! Processor time of congestion controls in the lab, against the kernel's BBR in pairs. The tables of
//! `docs/measurements/load.md`.

use std::collections::BTreeMap;

use fairwind_experiment::engine::lab::Lab;
use fairwind_lab::host::Offload;
use fairwind_result::RunResult;
use fairwind_result::record::NoRecorder;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cache::Policy;
use crate::experiments;
use crate::plan::{Parameter, Run, Values};
use crate::statistics::quantile;
use crate::table::Table;
use crate::{Error, Made, Study, Task, page};

const PARAMETERS: &[Parameter] = &[
    Parameter::new("control", Values::Text),
    Parameter::new("mbps", Values::Whole(1, 1000)),
];

/// Its runs are a control and a bandwidth.
pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// The control that is the other of each pair.
const REFERENCE: &str = "kernel:bbr";

const LAB: Lab = Lab {
    offload: Offload::Send,
    own_controls: true,
};

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
struct Data {
    pairs: u64,
    duration_s: f64,
    /// Without queue.
    rtt_ms: f64,
    /// In bandwidth-delay products.
    queue_bdp: f64,
}

/// A control on a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    mbps: u64,
    control: String,
}

impl Cell {
    fn of(run: &Run) -> Cell {
        Cell {
            mbps: run.get("mbps").parse().unwrap_or(1),
            control: run.get("control").to_owned(),
        }
    }

    fn text(&self, data: &Data, control: &str, scale: f64) -> String {
        let bdp_pkts = self.mbps as f64 * 1e3 * data.rtt_ms / 8.0 / 1500.0;
        // Room for a window of twice the path and the queue, so that the network limits.
        format!(
            "title = \"Processor time, {control}\"\nduration = \"{}s\"\nrecord = {{ series = false }}\n\
             tcp_rmem = [4096, 131072, 33554432]\ntcp_wmem = [4096, 16384, 33554432]\n\n\
             [[link]]\nname = \"bottleneck\"\nbetween = [\"server\", \"client\"]\n\
             bandwidth = \"{}Mbit/s\"\ndelay = \"{}ms\"\nqueue = \"{:.0}pkt\"\n\
             reverse = {{ bandwidth = \"unlimited\", queue = \"unlimited\" }}\n\n\
             [[flow]]\nname = \"flow\"\nfrom = \"server\"\nto = \"client\"\n\
             congestion_control = \"{control}\"\n",
            data.duration_s * scale,
            self.mbps,
            data.rtt_ms / 2.0,
            (data.queue_bdp * bdp_pkts).max(2.0),
        )
    }
}

/// What is measured of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Measures {
    goodput_mbps: f64,
    /// Data packets that arrived.
    packets: u64,
    /// Processor time of all that the lab does, s.
    processor_s: f64,
}

impl Measures {
    fn of(result: &RunResult) -> Measures {
        Measures {
            goodput_mbps: result.flows.first().map_or(0.0, |flow| flow.goodput_mbps),
            packets: result.performance.data_packets,
            processor_s: result.performance.cpu_s,
        }
    }

    /// Processor time of a packet, us.
    fn packet_us(&self) -> f64 {
        self.processor_s * 1e6 / self.packets.max(1) as f64
    }
}

/// A control's run, and the reference's beside it. It is kept as a whole, since processor times of two builds, or of two
/// hours of a shared machine, cannot be compared.
type Pair = [Measures; 2];

type Measured = BTreeMap<Cell, Vec<Pair>>;

/// Runs the pairs and makes their table.
///
/// # Errors
/// If the plan lacks what it needs, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let data: Data = task.plan.data()?;
    let pairs = task
        .options
        .repetitions
        .map_or(data.pairs, |most| (most as u64).min(data.pairs));
    let mut measured = Measured::new();
    for cell in task.runs.iter().map(Cell::of) {
        for number in 1..=pairs {
            if let Some(pair) = pair(task, &data, &cell, number)? {
                measured.entry(cell.clone()).or_default().push(pair);
            }
        }
    }
    let mut made = Made::default();
    let table = table(&measured);
    if !table.is_empty() {
        made.sections.push(table.section("load"));
    }
    made.sections.push(page::made("run"));
    made.runs = Some(runs(&measured));
    Ok(made)
}

/// Runs a pair, or reads what is kept.
fn pair(task: &Task<'_>, data: &Data, cell: &Cell, number: u64) -> Result<Option<Pair>, Error> {
    let controls = [cell.control.as_str(), REFERENCE];
    let texts = controls.map(|control| cell.text(data, control, task.scale()));
    let grounds = controls.map(|control| {
        experiments::ground(&LAB, (!control.starts_with("kernel:")).then_some(control))
    });
    let key = json!({ "experiments": texts, "engine": format!("{LAB:?}"), "on": grounds });
    let place = format!(
        "{}mbit-{}/pair-{number}",
        cell.mbps,
        cell.control.replace(':', "-")
    );
    let cache = task.cache("lab");
    if let Some(kept) = cache.kept::<Pair>(&place, &key) {
        return Ok(Some(kept));
    }
    if task.options.policy == Policy::Nothing {
        return Ok(None);
    }
    let pair = both(number, |which| {
        let name = format!("lab/{place}/{}", controls[which].replace(':', "-"));
        run(task, &texts[which], &name, number)
    })?;
    if let Some(pair) = &pair {
        cache.keep(&place, &key, pair)?;
    }
    Ok(pair)
}

/// Runs both of a pair, one after the other: the first goes first in pairs of odd numbers.
fn both(
    number: u64,
    mut run: impl FnMut(usize) -> Result<Option<Measures>, Error>,
) -> Result<Option<Pair>, Error> {
    let [first, second] = if number.is_multiple_of(2) {
        [1, 0]
    } else {
        [0, 1]
    };
    let Some(of_first) = run(first)? else {
        return Ok(None);
    };
    let Some(of_second) = run(second)? else {
        return Ok(None);
    };
    let mut pair = [of_first; 2];
    pair[second] = of_second;
    Ok(Some(pair))
}

fn run(task: &Task<'_>, text: &str, name: &str, number: u64) -> Result<Option<Measures>, Error> {
    task.host.go_on()?;
    task.tell(name);
    let result = experiments::watch(task, (text, name), &LAB, number, &mut NoRecorder)?;
    if let Some(why) = &result.incomplete {
        task.tell(&format!("{name}: left out, as it ended early: {why}"));
        return Ok(None);
    }
    Ok(Some(Measures::of(&result)))
}

/// The median, with the range.
fn middle(values: impl Iterator<Item = f64>, digits: usize) -> String {
    let values: Vec<f64> = values.collect();
    let [least, middle, most] = [0.0, 0.5, 1.0].map(|share| {
        format!(
            "{:.digits$}",
            quantile(values.clone(), share).unwrap_or(0.0)
        )
    });
    format!("{middle} ({least} to {most})")
}

fn table(measured: &Measured) -> Table {
    let mut table = Table::new(
        "link, Mbit/s | control | pairs | goodput, Mbit/s | processor time of a packet, µs | BBR's goodput | \
         its processor time | more than BBR's, µs | of BBR's",
    );
    for (cell, pairs) in measured {
        let of =
            |which: usize, of: fn(&Measures) -> f64| pairs.iter().map(move |pair| of(&pair[which]));
        let both = || of(0, Measures::packet_us).zip(of(1, Measures::packet_us));
        table.row([
            cell.mbps.to_string(),
            format!("`{}`", cell.control),
            pairs.len().to_string(),
            middle(of(0, |run| run.goodput_mbps), 1),
            middle(of(0, Measures::packet_us), 2),
            middle(of(1, |run| run.goodput_mbps), 1),
            middle(of(1, Measures::packet_us), 2),
            middle(both().map(|(own, bbr)| own - bbr), 2),
            middle(both().map(|(own, bbr)| own / bbr), 3),
        ]);
    }
    table
}

/// Every run.
fn runs(measured: &Measured) -> Table {
    let mut table = Table::new(
        "control | link_mbps | pair | goodput_mbps | packets | processor_s | bbr_goodput_mbps | bbr_packets | \
         bbr_processor_s",
    );
    for (cell, pairs) in measured {
        for (number, pair) in pairs.iter().enumerate() {
            let mut row = vec![
                cell.control.clone(),
                cell.mbps.to_string(),
                (number + 1).to_string(),
            ];
            for run in pair {
                row.push(format!("{:.3}", run.goodput_mbps));
                row.push(run.packets.to_string());
                row.push(format!("{:.4}", run.processor_s));
            }
            table.row(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairwind_scenario::Experiment;

    use super::*;

    #[test]
    fn both_of_a_pair_have_the_same_path() {
        let data = Data {
            pairs: 1,
            duration_s: 10.0,
            rtt_ms: 20.0,
            queue_bdp: 1.0,
        };
        let cell = Cell {
            mbps: 60,
            control: "fairwind".to_owned(),
        };
        let texts = ["fairwind", REFERENCE].map(|control| cell.text(&data, control, 1.0));
        for text in &texts {
            let experiment = Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap();
            assert_eq!(experiment.flows().len(), 1);
        }
        assert_eq!(texts[0].replace("fairwind", REFERENCE), texts[1]);
    }

    #[test]
    fn the_order_changes_from_pair_to_pair() {
        for (number, order) in [(1, [0, 1]), (2, [1, 0])] {
            let mut ran = Vec::new();
            let pair = both(number, |which| {
                ran.push(which);
                Ok(Some(Measures {
                    goodput_mbps: which as f64,
                    packets: 1,
                    processor_s: 1.0,
                }))
            });
            assert_eq!(ran, order);
            assert_eq!(
                pair.unwrap().unwrap().map(|run| run.goodput_mbps),
                [0.0, 1.0]
            );
        }
    }

    #[test]
    fn a_pair_of_which_one_ended_early_is_none() {
        assert_eq!(both(1, |_| Ok(None)).unwrap(), None);
    }

    #[test]
    fn a_row_has_medians_with_the_range_of_the_pairs() {
        let run = |processor_s| Measures {
            goodput_mbps: 48.0,
            packets: 10_000,
            processor_s,
        };
        let cell = Cell {
            mbps: 50,
            control: "nice".to_owned(),
        };
        let pairs = vec![
            [run(0.11), run(0.10)],
            [run(0.12), run(0.10)],
            [run(0.10), run(0.10)],
        ];
        let table = table(&Measured::from([(cell, pairs)])).markdown();
        let row = "| 50 | `nice` | 3 | 48.0 (48.0 to 48.0) | 11.00 (10.00 to 12.00) | 48.0 (48.0 to 48.0) | \
                   10.00 (10.00 to 10.00) | 1.00 (0.00 to 2.00) | 1.100 (1.000 to 1.200) |\n";
        assert!(table.ends_with(row), "{table}");
    }
}
