//! The experiment file of a run: one bottleneck, which every host reaches over a link of its own.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::Error;
use crate::draw::Draw;
use crate::experiments::{TCP_IP, UDP_IP};

use super::cell::Cell;
use super::suite::{Phases, Sends, Suite, Traffic};

/// Who is on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The foreground without a background.
    Solo,
    /// The foreground with strict priority over a saturated low class.
    Oracle,
    /// The foreground with the contender in the background.
    Contended,
}

/// The times of a run, seconds from its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Times {
    /// All flows of the background have started, and the background alone is measured from here.
    pub settled: f64,
    /// The foreground comes; or the run ends, if there is none.
    pub come: f64,
    /// The foreground leaves.
    pub leave: f64,
    /// The end.
    pub end: f64,
    /// Between two samples.
    pub sample: f64,
    /// Least round-trip time of the background.
    pub trip: f64,
}

/// A run: its experiment file, and what is needed to understand its result.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub text: String,
    pub times: Times,
    /// Flows of the foreground, which come first; copies count.
    pub foreground_flows: usize,
    /// Bandwidth of the link, bit/s.
    pub bandwidth: f64,
    /// IP bytes for each byte of the background's payload.
    pub background_ip: f64,
    /// Time for a segment of a video, seconds; 0 for others.
    pub deadline: f64,
    /// Flows of the background, which come next.
    pub background_flows: usize,
    /// Times at which the round-trip time steps, seconds.
    pub steps: Vec<f64>,
    /// The recording of the bottleneck's delay, if it steps.
    pub delays: Option<String>,
}

/// Where the bottleneck is on the way: the share of the least round-trip time from it to the receivers.
const BEHIND_BOTTLENECK: f64 = 0.25;

/// Name of the recording of the bottleneck's delay, beside the experiment file; the delay differs between seeds.
pub(super) fn delays_file(seed: u64) -> String {
    format!("seed-{seed}-delays.csv")
}

/// A flow, and the round-trip time of its path in seconds.
struct Flow {
    name: String,
    /// The host that sends.
    host: String,
    rtt: f64,
    start: f64,
    /// All other fields.
    fields: String,
}

impl Setup {
    /// The run of a cell in this role.
    ///
    /// # Errors
    /// If `[data]` lacks what it needs.
    pub(super) fn new(
        suite: &Suite,
        cell: &Cell<'_>,
        role: Role,
        seed: u64,
    ) -> Result<Setup, Error> {
        let phases = suite.phases(cell.mbps)?;
        let rtt = cell.rtt_ms as f64 / 1e3;
        let times = times(phases, cell, rtt);
        let (foreground, deadline) = foreground(suite, cell, &times, rtt, seed);
        let (background, background_ip) = background(suite, cell, role, phases, &times, rtt, seed);
        let text = text(suite, cell, role, seed, &times, &foreground, &background);
        let thirds = [times.end / 3.0, times.end * 2.0 / 3.0];
        let delays = cell.noise.step.map(|step| {
            let ms = behind(&foreground, &background) * 1e3;
            let stepped = ms + rtt * 1e3 * (step - 1.0) / 2.0;
            let [up, down] = thirds;
            format!("time_s,delay_ms\n0,{ms:.3}\n{up:.3},{stepped:.3}\n{down:.3},{ms:.3}\n")
        });
        let copies = |flow: &Flow| {
            flow.fields
                .lines()
                .find_map(|line| line.strip_prefix("count = ")?.parse().ok())
        };
        Ok(Setup {
            text,
            times,
            foreground_flows: foreground
                .iter()
                .map(|flow| copies(flow).unwrap_or(1))
                .sum(),
            bandwidth: cell.bandwidth(),
            background_ip,
            deadline,
            background_flows: background.len(),
            steps: delays.iter().flat_map(|_| thirds).collect(),
            delays,
        })
    }
}

fn times(phases: &Phases, cell: &Cell<'_>, rtt: f64) -> Times {
    let (least, most) = (rtt * cell.trip.least, rtt * cell.trip.most);
    // At 1 ms less would tell nothing more: rates are means over longer windows.
    let sample = phases
        .sample
        .seconds
        .min(phases.sample.round_trips * rtt.min(least))
        .max(0.001);
    if !cell.has_foreground() {
        let alone = phases.without_foreground.length(most);
        return Times {
            settled: phases.settled * alone,
            come: alone,
            leave: alone,
            end: alone,
            sample,
            trip: least,
        };
    }
    let come = phases.alone.length(most);
    let leave = come + phases.foreground.length(rtt.max(most));
    let leaves = matches!(cell.foreground.traffic, Traffic::Long { .. });
    Times {
        settled: phases.settled * come,
        come,
        leave,
        end: if leaves {
            leave + phases.tail.length(most)
        } else {
            leave
        },
        sample,
        trip: least,
    }
}

/// The foreground's flows, and the time for a segment of its video.
fn foreground(
    suite: &Suite,
    cell: &Cell<'_>,
    times: &Times,
    rtt: f64,
    seed: u64,
) -> (Vec<Flow>, f64) {
    let mut draw = Draw::new(&cell.path(), "foreground", seed);
    let mut one_of_several = |name: String| {
        let rtt = rtt * (1.0 + suite.spread * draw.next());
        // They do not come in the same moment.
        let start = times.come + 2.0 * rtt.max(0.01) * draw.next();
        Flow {
            host: name.clone(),
            name,
            rtt,
            start,
            fields: String::new(),
        }
    };
    let at_once = |fields| Flow {
        name: "foreground".to_owned(),
        host: "foreground".to_owned(),
        rtt,
        start: times.come,
        fields,
    };
    let each = |flows: u32| (1..=flows).map(|n| format!("foreground-{n}"));
    let control = |name: &str| format!("congestion_control = \"{name}\"\n");
    let bytes_per_s = cell.bandwidth() / 8.0;
    match &cell.foreground.traffic {
        Traffic::None => (Vec::new(), 0.0),
        Traffic::Long {
            flows,
            control: name,
        } => {
            // It stops, which a bulk transfer without a size does not.
            let fields = |start: f64| {
                format!(
                    "{}application = {{ kind = \"on-off\", on = \"{}\", off = \"1h\", random = false }}\n",
                    control(name),
                    seconds(times.leave - start)
                )
            };
            let flows = each(*flows).map(&mut one_of_several);
            let flows = flows.map(|flow| Flow {
                fields: fields(flow.start),
                ..flow
            });
            (flows.collect(), 0.0)
        }
        Traffic::OnOff {
            flows,
            control: name,
            mean,
        } => {
            let mean = seconds(mean.length(rtt));
            let fields = format!(
                "{}application = {{ kind = \"on-off\", on = \"{mean}\", off = \"{mean}\" }}\n",
                control(name)
            );
            let flows = each(*flows).map(&mut one_of_several);
            let flows = flows.map(|flow| Flow {
                fields: fields.clone(),
                ..flow
            });
            (flows.collect(), 0.0)
        }
        Traffic::Web {
            control: name,
            load,
            object_bytes,
            shape,
            think_s,
        } => {
            // A small object takes some round trips.
            let a_session = *object_bytes as f64 / (think_s + 5.0 * rtt);
            let sessions = (load * bytes_per_s / a_session).round().max(1.0);
            let fields = format!(
                "{}application = {{ kind = \"web\", sessions = {sessions}, object_mean = \"{object_bytes}B\", \
                 object_shape = {shape}, think_mean = \"{}\" }}\n",
                control(name),
                seconds(*think_s)
            );
            (vec![at_once(fields)], 0.0)
        }
        Traffic::Video {
            control: name,
            load,
            segment,
        } => {
            let segment = segment.length(rtt);
            let count = ((times.leave - times.come) / segment + 1e-9)
                .floor()
                .max(1.0);
            let bytes = (load * bytes_per_s * segment).round();
            let fields = format!(
                "{}bytes = \"{bytes}B\"\ncount = {count}\nevery = \"{}\"\npacing = true\n",
                control(name),
                seconds(segment)
            );
            (vec![at_once(fields)], segment)
        }
    }
}

/// The background's flows, and the IP bytes for each byte of their payload.
fn background(
    suite: &Suite,
    cell: &Cell<'_>,
    role: Role,
    phases: &Phases,
    times: &Times,
    rtt: f64,
    seed: u64,
) -> (Vec<Flow>, f64) {
    let constant = |share: f64| {
        let rate = cell.bandwidth() * share;
        format!("application = {{ kind = \"constant\", rate = \"{rate:.0}bit/s\" }}\n")
    };
    let name = |n: u32| format!("background-{n}");
    if role == Role::Solo {
        return (Vec::new(), 1.0);
    }
    if role == Role::Oracle {
        let fields = constant(1.0);
        let (name, rtt, start) = (name(1), rtt * cell.trip.least, times.settled);
        return (
            vec![Flow {
                host: name.clone(),
                name,
                rtt,
                start,
                fields,
            }],
            UDP_IP,
        );
    }
    let count = cell.background;
    let (fields, ip) = match suite.sends(&cell.control) {
        Some(Sends::Constant { share }) => (constant(share / f64::from(count)), UDP_IP),
        Some(Sends::Control {
            control,
            parameters,
        }) => {
            let fields =
                format!("congestion_control = \"{control}\"\nparameters = {{ {parameters} }}\n");
            (fields, TCP_IP)
        }
        Some(Sends::Like { .. }) | None => (
            format!("congestion_control = \"{}\"\n", cell.control),
            TCP_IP,
        ),
    };
    let one_host = suite
        .contender(&cell.control)
        .is_some_and(|contender| contender.one_host);
    let mut draw = Draw::new(&cell.name(), "background", seed);
    let flow = |n: u32| {
        let place = f64::from(n) / f64::from(count);
        let among = if count > 1 {
            f64::from(n) / f64::from(count - 1)
        } else {
            0.5
        };
        let factor = cell.trip.least * (cell.trip.most / cell.trip.least).powf(among);
        let spread = 1.0 + suite.spread * draw.next();
        let name = name(n + 1);
        let (host, spread) = match one_host {
            true => ("background".to_owned(), 1.0),
            false => (name.clone(), spread),
        };
        let rtt = rtt * factor * spread;
        Flow {
            host,
            name,
            rtt,
            start: phases.joining * times.come * place + rtt * draw.next(),
            fields: fields.clone(),
        }
    };
    ((0..count).map(flow).collect(), ip)
}

/// The delay from the bottleneck to the receivers, seconds.
fn behind(foreground: &[Flow], background: &[Flow]) -> f64 {
    let trips = foreground.iter().chain(background).map(|flow| flow.rtt);
    BEHIND_BOTTLENECK * trips.fold(f64::INFINITY, f64::min)
}

fn text(
    suite: &Suite,
    cell: &Cell<'_>,
    role: Role,
    seed: u64,
    times: &Times,
    foreground: &[Flow],
    background: &[Flow],
) -> String {
    let flows = || foreground.iter().chain(background);
    let behind = behind(foreground, background);
    let length = cell.queue_length();
    let (what, scheduler) = match role {
        Role::Solo => ("the foreground alone".to_owned(), String::new()),
        Role::Oracle => {
            let names: Vec<String> = foreground
                .iter()
                .map(|flow| format!("\"{}\"", flow.name))
                .collect();
            let order = names.join(", ");
            let scheduler = format!("scheduler = {{ kind = \"priority\", order = [{order}] }}\n");
            (
                "strict priority over a saturated low class".to_owned(),
                scheduler,
            )
        }
        Role::Contended => (format!("{} in the background", cell.control), String::new()),
    };
    let name = if role == Role::Contended {
        cell.name()
    } else {
        cell.path()
    };
    let fields = match (role, &cell.queue.oracle) {
        (Role::Oracle, Some(fields)) => fields,
        _ => &cell.queue.fields,
    };
    let delay = match cell.noise.step {
        Some(_) => format!("{{ trace = \"{}\" }}", delays_file(seed)),
        None => format!("\"{}\"", seconds(behind)),
    };
    let (bandwidth, queue) = match cell.noise.upload {
        true => (format!("{}Mbit/s", cell.mbps), format!("{length}pkt")),
        false => ("unlimited".to_owned(), "unlimited".to_owned()),
    };
    let mut reverse = cell.noise.reverse.trim().to_owned();
    if !reverse.is_empty() {
        reverse.insert_str(0, ", ");
    }
    let mut text = format!(
        "title = \"{name}: {what}\"\nduration = \"{}\"\nseeds = [{seed}]\n\
         tcp_rmem = [4096, 131072, {buffers}]\ntcp_wmem = [4096, 16384, {buffers}]\n\n\
         [record]\ninterval = \"{}\"\n\n\
         [[link]]\nname = \"bottleneck\"\nbetween = [\"near\", \"far\"]\nbandwidth = \"{}Mbit/s\"\n\
         delay = {delay}\nqueue = \"{length}pkt\"\nloss = \"{}\"\n{}{}{scheduler}\
         reverse = {{ bandwidth = \"{bandwidth}\", queue = \"{queue}\", loss = 0, \
         aqm = {{ kind = \"drop-tail\" }}, scheduler = {{ kind = \"fifo\" }}{reverse} }}\n",
        seconds(times.end),
        seconds(times.sample),
        cell.mbps,
        cell.loss,
        with_length(fields, length),
        with_length(&cell.noise.fields, length),
        buffers = suite.buffers,
    );
    let mut hosts = BTreeSet::new();
    for flow in flows() {
        // Writing to a string cannot fail.
        if hosts.insert(&flow.host) {
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"{}\", \"near\"]\ndelay = \"{}\"\n",
                flow.host,
                seconds(flow.rtt / 2.0 - behind),
            );
        }
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"{}\"\nfrom = \"{}\"\nto = \"far\"\nstart = \"{}\"\n{}",
            flow.name,
            flow.host,
            seconds(flow.start),
            flow.fields,
        );
    }
    if cell.noise.upload {
        let rtt = cell.rtt_ms as f64 / 1e3;
        let _ = write!(
            text,
            "\n[[link]]\nbetween = [\"upload\", \"near\"]\ndelay = \"{}\"\n\
             \n[[flow]]\nname = \"upload\"\nfrom = \"far\"\nto = \"upload\"\n\
             congestion_control = \"cubic\"\n",
            seconds(rtt / 2.0 - behind),
        );
    }
    text
}

/// The fields with the queue's length in packets, and parts of it, in their places.
fn with_length(fields: &str, length: u64) -> String {
    let mut text = fields.trim().to_owned();
    if !text.is_empty() {
        text.push('\n');
    }
    while let Some(at) = text.find("LENGTH") {
        let behind = &text[at + "LENGTH".len()..];
        let digits = behind.strip_prefix('/').map(|rest| {
            rest.chars()
                .take_while(char::is_ascii_digit)
                .collect::<String>()
        });
        let (value, taken) = match digits {
            Some(digits) if !digits.is_empty() => {
                let part = length as f64 / digits.parse::<f64>().unwrap_or(1.0);
                (format!("{part:.3}"), "LENGTH/".len() + digits.len())
            }
            _ => (length.to_string(), "LENGTH".len()),
        };
        text.replace_range(at..at + taken, &value);
    }
    text
}

/// A time in the experiment file, to the microsecond.
fn seconds(seconds: f64) -> String {
    let us = (seconds * 1e6).round() as u64;
    match us {
        us if us % 1_000_000 == 0 => format!("{}s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{}ms", us / 1_000),
        us => format!("{us}us"),
    }
}

#[cfg(test)]
mod tests {
    use fairwind_scenario::Experiment;

    use super::*;

    #[test]
    fn the_length_of_a_queue_and_parts_of_it_take_their_places() {
        let fields = "queue = LENGTH\naqm = { min_th = LENGTH/6, max_th = LENGTH/2 }";
        assert_eq!(
            with_length(fields, 100),
            "queue = 100\naqm = { min_th = 16.667, max_th = 50.000 }\n"
        );
        assert_eq!(with_length("", 100), "");
    }

    #[test]
    fn times_are_exact_to_the_microsecond() {
        assert_eq!(
            [2.0, 0.25, 0.000_25, 1.234_567].map(seconds),
            ["2s", "250ms", "250us", "1234567us"]
        );
    }

    #[test]
    fn every_run_of_the_plan_is_a_valid_experiment_and_solo_does_not_depend_on_the_background() {
        let plan = super::super::plan();
        let suite: Suite = plan.data().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut places = BTreeSet::new();
        let mut solos = std::collections::BTreeMap::new();
        for run in &plan.runs {
            let cell = Cell::of(run, &suite).unwrap();
            for role in [Role::Solo, Role::Oracle, Role::Contended] {
                if role != Role::Contended && !cell.has_foreground() {
                    continue;
                }
                let place = super::super::work::place(&cell, role, 1);
                let setup = Setup::new(&suite, &cell, role, 1).unwrap();
                if role == Role::Contended {
                    assert!(places.insert(place.clone()), "{place} is there twice");
                } else {
                    let first = solos
                        .entry(place.clone())
                        .or_insert_with(|| setup.text.clone());
                    assert_eq!(*first, setup.text, "{place}");
                }
                if let Some(delays) = &setup.delays {
                    std::fs::write(folder.path().join(delays_file(1)), delays).unwrap();
                }
                let experiment = Experiment::parse(&setup.text, &place, folder.path(), &[]);
                let experiment = experiment.unwrap_or_else(|diagnostic| panic!("{diagnostic}"));
                let flows = experiment.flows();
                let foreground = flows
                    .iter()
                    .take_while(|flow| flow.name.starts_with("foreground"));
                assert_eq!(foreground.count(), setup.foreground_flows, "{place}");
                let background = match role {
                    Role::Solo => 0,
                    Role::Oracle => 1,
                    Role::Contended => cell.background as usize,
                };
                assert_eq!(setup.background_flows, background, "{place}");
                let upload = usize::from(cell.noise.upload);
                let others = flows.len() - setup.foreground_flows - upload;
                assert_eq!(others, background, "{place}");
            }
        }
    }

    #[test]
    fn every_table_has_its_part_of_the_page() {
        let plan = super::super::plan();
        let suite: Suite = plan.data().unwrap();
        let page = super::super::experiments()
            .join("..")
            .join(plan.page.clone().unwrap());
        let page = std::fs::read_to_string(page).unwrap();
        let groups = suite.group.iter().map(|group| group.name.as_str());
        for name in groups.chain(["aims", "short", "frontier"]) {
            assert!(crate::page::part(&page, name).is_some(), "{name}");
        }
    }

    #[test]
    fn seeds_differ_in_starts_and_the_foreground_is_the_same_beside_every_contender() {
        let plan = super::super::plan();
        let suite: Suite = plan.data().unwrap();
        let of = |control: &str| {
            let mut runs = plan.runs.iter();
            let run =
                runs.find(|run| run.get("control") == control && run.get("foreground") == "reno8");
            Cell::of(run.unwrap(), &suite).unwrap()
        };
        let text = |control, seed| {
            Setup::new(&suite, &of(control), Role::Contended, seed)
                .unwrap()
                .text
        };
        assert_ne!(
            text("reno", 1),
            text("reno", 2).replace("seeds = [2]", "seeds = [1]")
        );
        assert_eq!(
            text("reno", 1).replace("= \"reno\"", ""),
            text("cubic", 1)
                .replace("= \"cubic\"", "")
                .replace(": cubic in", ": reno in")
                .replace("= \"reno\"", "")
        );
    }
}
