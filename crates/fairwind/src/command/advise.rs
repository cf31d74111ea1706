//! `fairwind advise`: what a transfer should do now.

use clap::Args;
use fairwind_advice::Mode;
use fairwind_advice::wire::Answer;
use fairwind_advice_client::{Client, DEFAULT_URL};
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Ask the advisor what a transfer should do now
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advise 192.0.2.7
  fairwind advise data.example.org --bytes 16000000000 --json")]
pub(crate) struct Advise {
    /// Address or name of the other host
    host: String,
    /// Bytes that remain
    #[arg(long, value_name = "N")]
    bytes: Option<u64>,
    /// Address of the advisor
    #[arg(long, value_name = "URL", env = "FAIRWIND_ADVISOR", default_value = DEFAULT_URL)]
    advisor: String,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
}

impl Advise {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let client = client(&self.advisor)?;
        let answer = client.advice(&self.host, self.bytes)?;
        if self.json {
            return Ok(output::json(&json!(answer))?);
        }
        Ok(output::line(&text(&answer))?)
    }
}

/// A client of the advisor, with the token from the environment.
pub(crate) fn client(url: &str) -> Result<Client, Failure> {
    let client = Client::new(url).and_then(Client::with_token_of_environment);
    Ok(client?)
}

fn text(answer: &Answer) -> String {
    let advice = &answer.advice;
    let mbps = |value: f64| format!("{value:.1} Mbit/s");
    let bytes = |value: u64| format!("{value} bytes");
    let mode = match advice.mode {
        Mode::CongestionControl => "congestion control",
        Mode::NoCongestionControl => "no congestion control",
        Mode::Background => "background",
        Mode::Rate => "rate",
    };
    let control = advice.congestion_control.clone();
    let control = control.unwrap_or_else(|| "the kernel's default".to_owned());
    let between = |[low, high]: [f64; 2]| format!("{low:.1} and {high:.1} Mbit/s");
    let model = format!("{}, from {} days", advice.model, advice.days_used);
    let lines = [
        ("mode", Some(mode.to_owned())),
        ("control", Some(control)),
        ("available bandwidth", advice.available_mbps.map(mbps)),
        ("80 % between", advice.interval_mbps.map(between)),
        ("threshold", advice.threshold_mbps.map(mbps)),
        (
            "round-trip time",
            advice.rtt_ms.map(|ms| format!("{ms:.1} ms")),
        ),
        ("send buffer", advice.send_buffer_bytes.map(bytes)),
        ("receive buffer", advice.receive_buffer_bytes.map(bytes)),
        ("pacing", advice.pacing_mbps.map(mbps)),
        (
            "ask again after",
            Some(format!("{:.0} s", answer.ask_again_after_s)),
        ),
        ("model", Some(model)),
        (
            "R²",
            advice.r_squared.map(|r_squared| format!("{r_squared:.3}")),
        ),
        ("path", answer.path.clone()),
        ("holds for", answer.prefix.map(|prefix| prefix.to_string())),
        ("why", Some(advice.reason.clone())),
    ];
    let lines = lines.into_iter();
    let lines = lines.filter_map(|(name, value)| Some(format!("{name:<20} {}", value?)));
    lines.collect::<Vec<_>>().join("\n")
}
