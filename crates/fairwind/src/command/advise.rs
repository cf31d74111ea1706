//! `fairwind advise`: what a transfer should do now.

use clap::Args;
use fairwind_advice::Mode;
use fairwind_advice_client::{Answer, Client, ClientError, DEFAULT_URL};
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Ask the advisor what a transfer should do now
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind advise 192.0.2.7
  fairwind advise data.example.org --bytes 16000000000 --json")]
pub struct Advise {
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
    pub fn run(self) -> Result<(), Failure> {
        let client = client(&self.advisor)?;
        let answer = client
            .advice(&self.host, self.bytes)
            .map_err(client_failure)?;
        match self.json {
            true => Ok(output::json(&json!(answer))?),
            false => Ok(output::line(&text(&answer))?),
        }
    }
}

/// A client of the advisor, with the token from the environment.
pub fn client(url: &str) -> Result<Client, Failure> {
    let client = Client::new(url).and_then(Client::with_token_of_environment);
    client.map_err(client_failure)
}

/// Classifies an error by who has to fix it: the user (input) or the advisor (work).
pub fn client_failure(error: ClientError) -> Failure {
    match error {
        ClientError::Url(_)
        | ClientError::Token(_)
        | ClientError::Refused {
            status: 400..500, ..
        } => Failure::input(error),
        _ => Failure::work(error),
    }
}

fn text(answer: &Answer) -> String {
    let advice = &answer.advice;
    let mut lines = vec![match advice.mode {
        Mode::CongestionControl => "mode                 congestion control".to_owned(),
        Mode::NoCongestionControl => "mode                 no congestion control".to_owned(),
    }];
    let mut line = |name: &str, value: Option<String>| {
        let value = value.map(|value| format!("{name:<20} {value}"));
        lines.extend(value);
    };
    let mbps = |value: f64| format!("{value:.1} Mbit/s");
    let bytes = |value: u64| format!("{value} bytes");
    line(
        "control",
        Some(
            advice
                .congestion_control
                .clone()
                .unwrap_or("the kernel's default".to_owned()),
        ),
    );
    line("available bandwidth", advice.available_mbps.map(mbps));
    line(
        "80 % between",
        advice
            .interval_mbps
            .map(|[low, high]| format!("{low:.1} and {high:.1} Mbit/s")),
    );
    line("threshold", advice.threshold_mbps.map(mbps));
    line(
        "round-trip time",
        advice.rtt_ms.map(|ms| format!("{ms:.1} ms")),
    );
    line("send buffer", advice.send_buffer_bytes.map(bytes));
    line("receive buffer", advice.receive_buffer_bytes.map(bytes));
    line("pacing", advice.pacing_mbps.map(mbps));
    line(
        "ask again after",
        Some(format!("{:.0} s", answer.ask_again_after_s)),
    );
    line(
        "model",
        Some(format!("{}, from {} days", advice.model, advice.days_used)),
    );
    line(
        "R²",
        advice.r_squared.map(|r_squared| format!("{r_squared:.3}")),
    );
    line("path", answer.path.clone());
    line("why", Some(advice.reason.clone()));
    lines.join("\n")
}
