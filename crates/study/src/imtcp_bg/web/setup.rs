//! The experiment file of a cell: the thesis' network (its Figure 3, section 4), and what it leaves open.

use std::fmt::Write;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Deserialize;

use crate::plan::Run;

/// Bandwidth of the bottleneck, Mbit/s.
pub(super) const BOTTLENECK_MBPS: f64 = 50.0;

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Data {
    /// Seeds of each cell.
    pub seeds: Vec<u64>,
    /// Concurrent sessions of each web server.
    pub sessions: u64,
    /// Mean size of a document, bytes.
    pub document_bytes: u64,
    /// Shape of the distribution of sizes.
    pub shape: f64,
    /// Mean time between the end of a download and the next, seconds.
    pub think_s: f64,
    /// One-way delay from a background sender to the bottleneck, ms.
    pub access_ms: f64,
    /// Length of a run with connections that are there all the time, and of others, seconds.
    pub whole_s: f64,
    pub joining_s: f64,
    /// What totals leave out at the beginning, seconds.
    pub warmup_s: f64,
    /// Mean queues that the thesis has, packets.
    pub queues: Vec<Queue>,
}

/// A row of the thesis' Table 1.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Queue {
    pub control: String,
    pub packets: f64,
}

/// Who is in the background, and how much web in the foreground.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub control: String,
    pub servers: u64,
    pub connections: u64,
    pub joining: bool,
    /// Thousandths; none for the control's own.
    pub gamma: Option<u64>,
    pub delta: Option<u64>,
}

impl Cell {
    /// The cell of a run of the plan.
    pub(super) fn of(run: &Run) -> Cell {
        let number = |name: &str| run.get(name).parse::<u64>().ok();
        let control = run.get("control").to_owned();
        let connections = match control.as_str() {
            "none" => 0,
            _ => number("connections").unwrap_or(1),
        };
        Cell {
            servers: number("servers").unwrap_or(20),
            // One connection has nobody to join.
            joining: run.get("schedule") == "joining" && connections != 1,
            gamma: number("gamma"),
            delta: number("delta"),
            connections,
            control,
        }
    }

    /// The folder of its runs.
    pub(super) fn name(&self) -> String {
        let mut name = format!("{}-{}-web-{}", self.control, self.connections, self.servers);
        if self.joining {
            name.push_str("-joining");
        }
        for (what, value) in [("gamma", self.gamma), ("delta", self.delta)] {
            if let Some(value) = value {
                let _ = write!(name, "-{what}-{value}");
            }
        }
        name
    }

    fn length_s(&self, data: &Data, scale: f64) -> f64 {
        scale
            * match self.joining {
                true => data.joining_s,
                false => data.whole_s,
            }
    }

    /// The experiment file of a run, whose times are scaled.
    pub(super) fn text(&self, data: &Data, seed: u64, scale: f64) -> String {
        let mut draw = SplitMix64::seed_from_u64(seed);
        let mut between = |least: f64, most: f64| {
            let unit = (draw.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            least + (most - least) * unit
        };
        let length_s = self.length_s(data, scale);
        let mut text = format!(
            "title = \"{}\"\nduration = \"{length_s}s\"\nwarmup = \"{}s\"\nseeds = [{seed}]\nstack = \"2005\"\n\n\
             [record]\ninterval = \"100ms\"\n\n\
             [[link]]\nname = \"bottleneck\"\nbetween = [\"left\", \"right\"]\n\
             bandwidth = \"{BOTTLENECK_MBPS}Mbit/s\"\ndelay = \"10ms\"\nqueue = \"1000pkt\"\n",
            self.name(),
            data.warmup_s * scale,
        );
        for number in 0..self.connections {
            let share = number as f64 / (self.connections.max(2) - 1) as f64;
            let start_s = if self.joining {
                0.4 * length_s * share
            } else {
                0.0
            };
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"background-{number}\", \"left\"]\nbandwidth = \"100Mbit/s\"\n\
                 delay = \"{}ms\"\nqueue = \"1000pkt\"\n\
                 \n[[flow]]\nname = \"background-{number}\"\nfrom = \"background-{number}\"\nto = \"right\"\n\
                 congestion_control = \"{}\"\nreceive_buffer = \"8MB\"\nsend_buffer = \"8MB\"\n\
                 start = \"{start_s}s\"\n{}{}",
                data.access_ms,
                self.control,
                self.parameters(),
                self.application(length_s - 2.0 * start_s),
            );
        }
        for number in 0..self.servers {
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"web-{number}\", \"left\"]\nbandwidth = \"{:.3}Mbit/s\"\n\
                 delay = \"{:.3}ms\"\nqueue = \"1000pkt\"\n\
                 \n[[flow]]\nname = \"web-{number}\"\nfrom = \"web-{number}\"\nto = \"right\"\n\
                 congestion_control = \"reno\"\n\
                 application = {{ kind = \"web\", sessions = {}, object_mean = \"{}B\", object_shape = {}, \
                 think_mean = \"{}s\" }}\n",
                between(10.0, 100.0),
                between(10.0, 100.0),
                data.sessions,
                data.document_bytes,
                data.shape,
                data.think_s,
            );
        }
        text
    }

    fn parameters(&self) -> String {
        let given = [("gamma", self.gamma), ("delta", self.delta)];
        let given = given.into_iter().filter_map(|(name, value)| {
            let thousandths = value?;
            Some(format!("{name} = {:.3}", thousandths as f64 / 1000.0))
        });
        let given: Vec<String> = given.collect();
        match given.is_empty() {
            true => String::new(),
            false => format!("parameters = {{ {} }}\n", given.join(", ")),
        }
    }

    /// A bulk transfer does not stop, so connections that leave are on once.
    fn application(&self, on_s: f64) -> String {
        match self.joining {
            true => format!(
                "application = {{ kind = \"on-off\", on = \"{on_s}s\", off = \"1h\", random = false }}\n"
            ),
            false => String::new(),
        }
    }
}
