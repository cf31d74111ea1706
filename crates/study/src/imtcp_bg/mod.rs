//! ImTCP-bg: Tsugawa's thesis again, and the tables of `docs/measurements/imtcp-bg.md`. Beside web traffic, in the
//! simulator: Figures 4 to 9 and Table 1 (`web`). On an experimental network and on the Internet, in the lab and in
//! the simulator: Figures 12 to 15 and 17 to 19, and Table 4 (`networks`).

mod curve;
mod networks;
mod web;

use crate::plan::{Parameter, Run, Values};
use crate::{Error, Made, Study, Task, page};

/// The controls compared; `none` is the foreground alone.
const CONTROLS: &[&str] = &[
    "none", "reno", "nice", "lp", "imtcp", "imtcp_bg", "fairwind",
];

const PARAMETERS: &[Parameter] = &[
    Parameter::new("control", Values::Words(CONTROLS)),
    // Web servers, the thesis' N_web.
    Parameter::new("servers", Values::Whole(1, 1000)),
    // Connections in the background.
    Parameter::new("connections", Values::Whole(1, 100)),
    // They are there all the time, or join in the first 200 s and leave in the last 200 s.
    Parameter::new("schedule", Values::Words(&["whole", "joining"])),
    // In thousandths; the control's own if not given.
    Parameter::new("gamma", Values::Whole(1, 1000)),
    Parameter::new("delta", Values::Whole(1001, 10_000)),
    // One of the networks of the plan's data, in place of the web.
    Parameter::new(NETWORK, Values::Text),
    // What crosses it.
    Parameter::new("cross", Values::Words(&["udp", "tcp"])),
    // Its queue, packets; in the simulator alone. That of the data if not given.
    Parameter::new("queue", Values::Whole(1, 100_000)),
    // A short run that is compared with another of this number, in the lab alone.
    Parameter::new("pair", Values::Whole(1, 1000)),
];

const NETWORK: &str = "network";

/// Its runs are cells: who is in the background, and of what.
pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// Runs the cells and makes their tables and figures.
///
/// # Errors
/// If the plan lacks what it needs, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let is_of_network = |run: &&Run| !run.get(NETWORK).is_empty();
    let (networks, web): (Vec<&Run>, Vec<&Run>) = task.runs.iter().partition(is_of_network);
    let mut made = Made::default();
    let mut runs = table_of_runs();
    if task.engines.has_sim() && !web.is_empty() {
        web::carry_out(task, &web, &mut made, &mut runs)?;
    }
    if !networks.is_empty() {
        networks::carry_out(task, &networks, &mut made, &mut runs)?;
    }
    made.runs = Some(runs);
    Ok(made)
}

/// Every run.
fn table_of_runs() -> crate::table::Table {
    crate::table::Table::new(
        "engine | cell | run | bottleneck_mbps | background_mbps | download_s | queue_pkts | drops",
    )
}

/// When and on what it was made, as the part of the page with this name.
fn made_now(name: &str, made: &mut Made) {
    made.sections.push(page::made(name));
}
