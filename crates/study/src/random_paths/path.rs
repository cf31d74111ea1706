//! A path, drawn at random.

use crate::draw::Draw;

use super::suite::Suite;

/// Least rate of a link that swings, Mbit/s: below it a packet takes longer than all else here.
const LEAST_MBPS: f64 = 0.1;

/// A path, and who else is on it. Shares are of the bandwidth; times are in seconds unless their names say otherwise.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RandomPath {
    /// Its number, from 1.
    pub number: u32,
    pub seed: u64,
    /// Length of a run.
    pub length: f64,
    /// Bandwidth; of a link that swings, its greatest.
    pub mbps: f64,
    /// Least round-trip time but for steps.
    pub rtt: f64,
    pub queue: Queue,
    pub loss: Option<Loss>,
    pub jitter: Option<Jitter>,
    pub step: Option<Step>,
    pub aggregation: Option<Aggregation>,
    pub swing: Option<Swing>,
    pub policer: Option<Policer>,
    pub reorder: Option<Reorder>,
    pub blackout: Option<Blackout>,
    pub reverse: Option<Reverse>,
    pub foreground: Option<Foreground>,
    /// Jiffies per second.
    pub hz: u32,
}

/// The queue of the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Queue {
    /// What manages it, as `kind` of `aqm`.
    pub aqm: &'static str,
    /// Length, packets.
    pub packets: u64,
}

/// Random loss on the way to the link's queue, with this mean.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Loss {
    pub mean: f64,
    /// Times in which all is lost, begin and end, if it is not packet by packet.
    pub bursts: Option<Vec<(f64, f64)>>,
    /// Whether ACKs are lost, too.
    pub on_way_back: bool,
}

/// Which way something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    There,
    Back,
    Both,
}

impl Jitter {
    /// By how much it is below its mean at most, ms: the delay of a link without it is so much longer, so that no
    /// packet is faster than light.
    fn below_ms(&self) -> f64 {
        match self.distribution {
            "uniform" => self.amount_ms,
            // A packet in a thousand.
            "normal" => 3.0 * self.amount_ms,
            _ => 0.0,
        }
    }
}

impl Way {
    const ALL: &[Way] = &[Way::There, Way::Back, Way::Both];
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Jitter {
    pub amount_ms: f64,
    pub distribution: &'static str,
    pub overtake: bool,
    pub way: Way,
}

/// The round-trip time becomes this share longer, or shorter if negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub at: f64,
    pub share: f64,
    /// When it is as before again.
    pub back_at: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Aggregation {
    pub interval_ms: f64,
    pub way: Way,
}

/// The bandwidth falls to a share and rises again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Swing {
    pub lowest: f64,
    /// When it changes: falls at the first, rises at the second, and so on.
    pub at: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policer {
    pub share: f64,
    pub burst_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reorder {
    pub probability: f64,
    pub delay_ms: f64,
}

/// Nothing passes for a time: it waits, or it is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Blackout {
    pub at: f64,
    pub length: f64,
    pub is_lost: bool,
}

/// A transfer by Cubic the other way, on a link of its own rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reverse {
    pub share: f64,
    pub queue_packets: u64,
}

/// Who else is on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Foreground {
    /// A Cubic flow that sends and pauses by turns.
    OnOff { mean: f64 },
    /// Datagrams at an even rate.
    Datagrams { share: f64 },
}

impl RandomPath {
    /// The path of this number.
    pub(super) fn of(suite: &Suite, number: u32) -> RandomPath {
        let seed = suite.seed;
        let draw = |part: &str| Draw::new(&format!("path {number}"), part, seed);
        let drawn = |part: &str, probability: f64| {
            let mut draw = draw(part);
            draw.happens(probability).then_some(draw)
        };
        let mut of_link = draw("link");
        let mbps = rounded(of_link.log_between(1.0, 1000.0));
        let rtt = rounded(of_link.log_between(1.0, 300.0)) / 1e3;
        let length = rounded(suite.length(mbps, rtt));
        let bdp = mbps * 1e6 * rtt / 8.0 / 1500.0;
        let in_queue = |bdp_share: f64, least: f64| (bdp_share * bdp).max(least).round() as u64;
        let queue = if of_link.happens(0.3) {
            Queue {
                aqm: of_link.one_of(&["codel", "fq-codel", "pie", "red", "dualpi2"]),
                packets: in_queue(4.0, 50.0),
            }
        } else {
            Queue {
                aqm: "drop-tail",
                packets: in_queue(of_link.log_between(0.1, 4.0), 4.0),
            }
        };
        let hz = draw("hz").one_of(&[100, 250, 1000]);
        let loss = drawn("loss", 0.5).map(|mut draw| {
            let mean = rounded(draw.log_between(0.0001, 0.05));
            let on_way_back = draw.happens(0.5);
            let bursts = draw.happens(0.3).then(|| bursts(&mut draw, mean, length));
            Loss {
                mean,
                bursts,
                on_way_back,
            }
        });
        let jitter = drawn("jitter", 0.25).map(|mut draw| {
            let distribution = draw.one_of(&["uniform", "normal", "pareto"]);
            // Its tail is as long as the others are wide.
            let most = if distribution == "pareto" { 5.0 } else { 30.0 };
            Jitter {
                amount_ms: rounded(draw.log_between(0.1, most)),
                distribution,
                overtake: draw.happens(0.3),
                way: draw.one_of(Way::ALL),
            }
        });
        let step = drawn("step", 0.2).map(|mut draw| {
            let at = rounded(length * draw.between(0.25, 0.5));
            Step {
                at,
                share: rounded(draw.between(0.05, 0.5)) * draw.one_of(&[-1.0, 1.0]),
                back_at: draw
                    .happens(0.5)
                    .then(|| rounded(at + length * draw.between(0.1, 0.3))),
            }
        });
        let aggregation = drawn("aggregation", 0.2).map(|mut draw| Aggregation {
            interval_ms: rounded(draw.log_between(0.25, 10.0)),
            way: draw.one_of(Way::ALL),
        });
        let swing = drawn("swing", 0.2).map(|mut draw| {
            let ratio = draw.log_between(2.0, 100.0);
            let mut at = Vec::new();
            let mut next = length * draw.between(0.1, 0.4);
            while next < length {
                at.push(rounded(next));
                next += draw.log_between(0.5, length / 3.0);
            }
            Swing {
                lowest: rounded((1.0 / ratio).max(LEAST_MBPS / mbps)),
                at,
            }
        });
        let policer = drawn("policer", 0.15).map(|mut draw| {
            let share = rounded(draw.between(0.1, 0.9));
            let bytes = share * mbps * 1e6 / 8.0 * draw.log_between(0.005, 0.2);
            Policer {
                share,
                burst_bytes: (bytes.round() as u64).max(15_000),
            }
        });
        let reorder = drawn("reorder", 0.15).map(|mut draw| Reorder {
            probability: rounded(draw.log_between(0.001, 0.05)),
            delay_ms: rounded(draw.log_between(0.1, (rtt * 500.0).clamp(0.2, 20.0))),
        });
        let blackout = drawn("blackout", 0.15).map(|mut draw| Blackout {
            at: rounded(length * draw.between(0.25, 0.6)),
            length: rounded(draw.log_between(0.1, 2.0)),
            is_lost: draw.happens(0.5),
        });
        let reverse = drawn("reverse", 0.15).map(|mut draw| {
            let share = rounded(draw.log_between(0.1, 1.0));
            Reverse {
                share,
                queue_packets: in_queue(share * draw.log_between(0.25, 2.0), 20.0),
            }
        });
        let foreground = drawn("foreground", 0.3).map(|mut draw| match draw.happens(0.5) {
            true => Foreground::OnOff {
                mean: rounded(draw.log_between(0.3, 3.0).max(10.0 * rtt)),
            },
            false => Foreground::Datagrams {
                share: rounded(draw.between(0.1, 0.9)),
            },
        });
        RandomPath {
            number,
            seed,
            length,
            mbps,
            rtt,
            queue,
            loss,
            jitter,
            step,
            aggregation,
            swing,
            policer,
            reorder,
            blackout,
            reverse,
            foreground,
            hz,
        }
    }

    /// What it has besides bandwidth, delay and queue, each of [`FEATURES`].
    pub(super) fn features(&self) -> Vec<&'static str> {
        let jitter = |is: fn(&Jitter) -> bool| self.jitter.as_ref().is_some_and(is);
        let has = [
            self.loss.as_ref().is_some_and(|loss| loss.mean < 0.005),
            self.loss.as_ref().is_some_and(|loss| loss.mean >= 0.005),
            jitter(|jitter| jitter.amount_ms < 1.0),
            jitter(|jitter| jitter.amount_ms >= 1.0 && !jitter.overtake),
            jitter(|jitter| jitter.amount_ms >= 1.0 && jitter.overtake),
            self.step.is_some_and(|step| step.share > 0.0),
            self.step.is_some_and(|step| step.share < 0.0),
            self.aggregation.is_some(),
            self.swing.is_some(),
            self.policer.is_some(),
            self.reorder.is_some(),
            self.blackout.is_some(),
            self.reverse.is_some(),
            matches!(self.foreground, Some(Foreground::OnOff { .. })),
            matches!(self.foreground, Some(Foreground::Datagrams { .. })),
        ];
        let all = FEATURES.iter().zip(has);
        all.filter_map(|(feature, has)| has.then_some(*feature))
            .collect()
    }

    /// Its name: `17-20mbit-60ms-jitter`.
    pub(super) fn name(&self) -> String {
        let mut words: Vec<&str> = Vec::new();
        for feature in self.features() {
            // The first word says enough.
            let word = feature.split(' ').next().unwrap_or(feature);
            if words.last() != Some(&word) {
                words.push(word);
            }
        }
        let (number, mbps, ms) = (self.number, self.mbps, self.rtt * 1e3);
        let queue = match self.queue.aqm {
            "drop-tail" => format!("{}pkt", self.queue.packets),
            aqm => aqm.to_owned(),
        };
        let mut name = format!("{number:04}-{}mbit-{}ms-{queue}", short(mbps), short(ms));
        for word in words {
            name.push('-');
            name.push_str(word);
        }
        name
    }

    /// The bandwidth from each time on, Mbit/s; the first time is 0.
    pub(super) fn rates(&self) -> Vec<(f64, f64)> {
        let mut rates = vec![(0.0, self.mbps)];
        if let Some(swing) = &self.swing {
            let shares = [swing.lowest, 1.0].into_iter().cycle();
            rates.extend(
                swing
                    .at
                    .iter()
                    .zip(shares)
                    .map(|(&at, share)| (at, rounded(share * self.mbps))),
            );
        }
        let Some(blackout) = self.blackout.filter(|blackout| !blackout.is_lost) else {
            return rates;
        };
        let end = blackout.at + blackout.length;
        let behind = rates
            .iter()
            .rfind(|(at, _)| *at <= end)
            .map_or(self.mbps, |(_, rate)| *rate);
        rates.retain(|(at, _)| *at < blackout.at || *at > end);
        rates.extend([(blackout.at, 0.0), (end, behind)]);
        rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        rates
    }

    /// Mean of the delay in a direction, ms.
    pub(super) fn delay_ms(&self, way: Way) -> f64 {
        let jitter = self
            .jitter
            .filter(|jitter| jitter.way == way || jitter.way == Way::Both);
        self.rtt * 1e3 / 2.0 + jitter.map_or(0.0, |jitter| jitter.below_ms())
    }

    /// The share of packets lost at random from each time on, if it changes; the first time is 0.
    pub(super) fn losses(&self) -> Option<Vec<(f64, f64)>> {
        let blackout = self.blackout.filter(|blackout| blackout.is_lost);
        let bursts = self.loss.as_ref().and_then(|loss| loss.bursts.as_ref());
        let mut all: Vec<(f64, f64)> = bursts.cloned().unwrap_or_default();
        let blackout = blackout.map(|blackout| (blackout.at, blackout.at + blackout.length));
        all.extend(blackout);
        if all.is_empty() {
            return None;
        }
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let between = match (&self.loss, bursts) {
            (Some(loss), None) => loss.mean,
            _ => 0.0,
        };
        let mut losses = vec![(0.0, between)];
        let mut end = 0.0;
        for (from, to) in all {
            // What overlaps is one.
            if from <= end {
                losses.pop();
            } else {
                losses.push((from, 1.0));
            }
            end = to.max(end);
            losses.push((end, between));
        }
        Some(losses)
    }

    /// The greatest rate that passes the policer, Mbit/s; infinite without one.
    pub(super) fn policed_mbps(&self) -> f64 {
        self.policer
            .map_or(f64::INFINITY, |policer| rounded(policer.share * self.mbps))
    }
}

/// Times in which all is lost, so far apart that the mean is this.
fn bursts(draw: &mut Draw, mean: f64, length: f64) -> Vec<(f64, f64)> {
    let burst = draw.log_between(0.001, 0.02);
    let gap = burst * (1.0 - mean) / mean;
    let mut bursts = Vec::new();
    let mut at = 0.0;
    loop {
        // Exponentially distributed.
        at += -gap * (1.0 - draw.next()).ln();
        if at >= length {
            return bursts;
        }
        bursts.push((at, at + burst));
        at += burst;
    }
}

/// Names of what paths have, in the order of tables. The first word stands in the name of a path.
pub(super) const FEATURES: &[&str] = &[
    "loss below 0.5 %",
    "loss from 0.5 %",
    "jitter below 1 ms",
    "jitter from 1 ms, in order",
    "jitter from 1 ms, overtaking",
    "step up of the round trip",
    "step down of the round trip",
    "aggregation",
    "swing of the bandwidth",
    "policer",
    "reordering",
    "blackout",
    "reverse traffic",
    "onoff foreground",
    "datagrams in the foreground",
];

/// Four digits that count, as files have them.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}")
        .parse()
        .expect("a number was written")
}

/// A number for a name.
fn short(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
