//! The experiment file of a path, and the recordings beside it.

use std::fmt::Write;

use super::path::{Foreground, Jitter, RandomPath, Way};

/// Who is on the path besides the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role<'a> {
    /// A flow of this control.
    Control(&'a str),
    /// Datagrams that take all that nobody else wants.
    Oracle,
}

/// When the flow that is looked at starts, seconds.
pub(super) const START: f64 = 0.1;
/// Time between two samples, seconds.
pub(super) const SAMPLE: f64 = 0.02;

/// Datagrams come a little faster than the link sends.
const SATURATING: f64 = 1.05;
/// Least queue of the oracle: a queue of few packets would be empty at times.
const ORACLE_QUEUE: u64 = 50;

/// The recordings of a path: the file's name and content.
pub(super) fn recordings(path: &RandomPath) -> Vec<(&'static str, String)> {
    let table = |head: &str, rows: &[(f64, f64)]| {
        let rows = rows.iter().map(|(at, value)| format!("{at},{value}\n"));
        format!("time_s,{head}\n{}", rows.collect::<String>())
    };
    let mut files = Vec::new();
    if is_recorded(path) {
        let rates = path.rates();
        files.push(("rate.csv", table("bandwidth_mbps", &rates)));
        // The oracle has the policer's rate where that is less: a policer knows no priorities.
        if path.policer.is_some() {
            let least = |(at, rate): &(f64, f64)| (*at, rate.min(path.policed_mbps()));
            let rates: Vec<(f64, f64)> = rates.iter().map(least).collect();
            files.push(("oracle-rate.csv", table("bandwidth_mbps", &rates)));
        }
    }
    if let Some(step) = path.step {
        let delays = |way| {
            let ms = path.delay_ms(way);
            let mut delays = vec![(0.0, ms), (step.at, ms + path.rtt * 1e3 / 2.0 * step.share)];
            delays.extend(step.back_at.map(|at| (at, ms)));
            table("delay_ms", &delays)
        };
        files.push(("delay.csv", delays(Way::There)));
        files.push(("delay-back.csv", delays(Way::Back)));
    }
    if let Some(losses) = path.losses() {
        files.push(("loss.csv", table("loss_probability", &losses)));
    }
    files
}

/// Whether the bandwidth follows a recording.
fn is_recorded(path: &RandomPath) -> bool {
    path.swing.is_some() || path.blackout.is_some_and(|blackout| !blackout.is_lost)
}

/// The experiment file.
pub(super) fn text(path: &RandomPath, buffers: u64, role: Role<'_>) -> String {
    let what = match role {
        Role::Control(control) => control,
        Role::Oracle => "what is spare",
    };
    let mut text = format!(
        "title = \"{}: {what}\"\nduration = \"{}s\"\nseeds = [{}]\nhz = {}\n\
         tcp_rmem = [4096, 131072, {buffers}]\ntcp_wmem = [4096, 16384, {buffers}]\n\n\
         [record]\ninterval = \"{}ms\"\n\n\
         [[link]]\nname = \"link\"\nbetween = [\"near\", \"far\"]\n",
        path.name(),
        path.length,
        path.seed,
        path.hz,
        SAMPLE * 1e3,
    );
    let fields = there(path, role)
        .into_iter()
        .chain([("reverse", back(path))]);
    for (field, value) in fields {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{field} = {value}");
    }
    let flow = |name: &str, from: &str, to: &str, fields: &str| {
        format!("\n[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{fields}")
    };
    let own = match role {
        Role::Control(control) => format!("congestion_control = \"{control}\"\n"),
        Role::Oracle => {
            constant(SATURATING * path.mbps.min(path.policed_mbps()) / (1.0 - mean_loss(path)))
        }
    };
    text.push_str(&flow(
        "own",
        "near",
        "far",
        &format!("start = \"{START}s\"\n{own}"),
    ));
    if let Some(foreground) = path.foreground {
        let fields = match foreground {
            Foreground::OnOff { mean } => format!(
                "congestion_control = \"cubic\"\napplication = {{ kind = \"on-off\", on = \"{mean}s\", off = \"{mean}s\" }}\n"
            ),
            Foreground::Datagrams { share } => constant(share * path.mbps),
        };
        text.push_str(&flow("foreground", "near", "far", &fields));
    }
    if path.reverse.is_some() {
        let fields = "congestion_control = \"cubic\"\n";
        text.push_str(&flow("reverse", "far", "near", fields));
    }
    text
}

/// Random loss in the mean.
fn mean_loss(path: &RandomPath) -> f64 {
    path.loss.as_ref().map_or(0.0, |loss| loss.mean)
}

fn constant(mbps: f64) -> String {
    format!(
        "application = {{ kind = \"constant\", rate = \"{:.0}bit/s\" }}\n",
        mbps * 1e6
    )
}

/// The fields of the link towards the receiver.
fn there(path: &RandomPath, role: Role<'_>) -> Vec<(&'static str, String)> {
    let is_oracle = role == Role::Oracle;
    let mut fields = vec![
        ("bandwidth", bandwidth(path, is_oracle)),
        ("delay", delay(path, Way::There)),
        ("loss", loss(path)),
    ];
    if is_oracle {
        let packets = path.queue.packets.max(ORACLE_QUEUE);
        fields.push(("queue", format!("\"{packets}pkt\"")));
        let others = [
            ("foreground", path.foreground.is_some()),
            ("reverse", path.reverse.is_some()),
        ];
        let others = others.iter().filter(|(_, is_there)| *is_there);
        let order: Vec<String> = others.map(|(name, _)| format!("\"{name}\"")).collect();
        if !order.is_empty() {
            let order = order.join(", ");
            let value = format!("{{ kind = \"priority\", order = [{order}] }}");
            fields.push(("scheduler", value));
        }
    } else {
        let packets = path.queue.packets;
        fields.push(("queue", format!("\"{packets}pkt\"")));
        let red = format!(
            ", min_th = {:.3}, max_th = {:.3}, max_p = 0.1, gentle = true",
            packets as f64 / 6.0,
            packets as f64 / 2.0
        );
        let aqm = path.queue.aqm;
        let further = if aqm == "red" { red.as_str() } else { "" };
        fields.push(("aqm", format!("{{ kind = \"{aqm}\"{further} }}")));
        if let Some(policer) = path.policer {
            let (bps, burst) = (path.policed_mbps() * 1e6, policer.burst_bytes);
            let value = format!("{{ rate = \"{bps:.0}bit/s\", burst = \"{burst}B\" }}");
            fields.push(("policer", value));
        }
    }
    if let Some(jitter) = path.jitter.filter(|jitter| jitter.way != Way::Back) {
        fields.push(("jitter", jitter_field(&jitter)));
    }
    if let Some(reorder) = path.reorder {
        let (probability, ms) = (reorder.probability, reorder.delay_ms);
        let value = format!("{{ probability = {probability}, delay = \"{ms}ms\" }}");
        fields.push(("reorder", value));
    }
    if let Some(aggregation) = path
        .aggregation
        .filter(|aggregation| aggregation.way != Way::Back)
    {
        let ms = aggregation.interval_ms;
        fields.push(("aggregation", format!("{{ interval = \"{ms}ms\" }}")));
    }
    fields
}

/// The fields of the link towards the sender, which are those of the other direction where nothing is said.
fn back(path: &RandomPath) -> String {
    let mut fields = vec![
        format!("delay = {}", delay(path, Way::Back)),
        "aqm = { kind = \"drop-tail\" }".to_owned(),
        "scheduler = { kind = \"fifo\" }".to_owned(),
        "policer = \"none\"".to_owned(),
    ];
    match path.reverse {
        Some(reverse) => {
            let bps = reverse.share * path.mbps * 1e6;
            fields.push(format!("bandwidth = \"{bps:.0}bit/s\""));
            fields.push(format!("queue = \"{}pkt\"", reverse.queue_packets));
        }
        None => {
            fields.push("bandwidth = \"unlimited\"".to_owned());
            fields.push("queue = \"unlimited\"".to_owned());
        }
    }
    let loses_acks = path.loss.as_ref().is_some_and(|loss| loss.on_way_back)
        || path.blackout.is_some_and(|blackout| blackout.is_lost);
    if !loses_acks {
        fields.push("loss = 0".to_owned());
    }
    if let Some(jitter) = path.jitter {
        let value = match jitter.way {
            Way::There => "\"0ms\"".to_owned(),
            Way::Back | Way::Both => jitter_field(&jitter),
        };
        fields.push(format!("jitter = {value}"));
    }
    if path.reorder.is_some() {
        fields.push("reorder = { probability = 0, delay = \"1ms\" }".to_owned());
    }
    if let Some(aggregation) = path.aggregation {
        let value = match aggregation.way {
            Way::There => "\"none\"".to_owned(),
            Way::Back | Way::Both => format!("{{ interval = \"{}ms\" }}", aggregation.interval_ms),
        };
        fields.push(format!("aggregation = {value}"));
    }
    format!("{{ {} }}", fields.join(", "))
}

fn bandwidth(path: &RandomPath, is_oracle: bool) -> String {
    match (is_recorded(path), is_oracle && path.policer.is_some()) {
        (true, false) => "{ trace = \"rate.csv\" }".to_owned(),
        (true, true) => "{ trace = \"oracle-rate.csv\" }".to_owned(),
        (false, false) => format!("\"{}Mbit/s\"", path.mbps),
        (false, true) => format!("\"{}Mbit/s\"", path.policed_mbps().min(path.mbps)),
    }
}

fn delay(path: &RandomPath, way: Way) -> String {
    match (path.step, way) {
        (Some(_), Way::Back) => "{ trace = \"delay-back.csv\" }".to_owned(),
        (Some(_), _) => "{ trace = \"delay.csv\" }".to_owned(),
        (None, way) => format!("\"{:.0}us\"", path.delay_ms(way) * 1e3),
    }
}

fn loss(path: &RandomPath) -> String {
    match path.losses() {
        Some(_) => "{ trace = \"loss.csv\" }".to_owned(),
        None => mean_loss(path).to_string(),
    }
}

fn jitter_field(jitter: &Jitter) -> String {
    format!(
        "{{ amount = \"{}ms\", distribution = \"{}\", overtake = {} }}",
        jitter.amount_ms, jitter.distribution, jitter.overtake
    )
}
