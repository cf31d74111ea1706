//! The result of transfers, as text and as JSON.

use fairwind_ftp::client::{FileReport, Outcome, Verification};
use serde_json::{Value, json};

/// One object: the totals, and an entry for each file.
pub(crate) fn json(command: &str, outcome: &Outcome) -> Value {
    let mut object = json!(outcome);
    object["command"] = json!(command);
    object
}

/// A line for each file, and one for all if there are several.
pub(crate) fn text(outcome: &Outcome) -> String {
    let mut text: String = outcome.transfers.iter().map(of_file).collect();
    if outcome.transfers.len() > 1 {
        text.push_str(&format!(
            "{} files, {} verified, {} were there already: {}\n",
            outcome.files,
            outcome.verified,
            outcome.skipped,
            rate(outcome.bytes, outcome.seconds, outcome.mbps),
        ));
    }
    text
}

fn of_file(file: &FileReport) -> String {
    if file.skipped {
        return format!("{}: there already\n", file.destination);
    }
    let mut text = format!(
        "{}: {}",
        file.destination,
        rate(file.bytes, file.seconds, file.mbps)
    );
    if file.resumed_at > 0 {
        text.push_str(&format!(", after {} from before", bytes(file.resumed_at)));
    }
    if let Some(retransmits @ 1..) = file.retransmits {
        text.push_str(&format!(", {retransmits} retransmits"));
    }
    if file.control_changes > 0 {
        text.push_str(&format!(", {} changes of control", file.control_changes));
    }
    let checksum = match &file.checksum {
        Verification::Verified(checksum) => format!("{} verified", checksum.algorithm),
        Verification::NotOffered => "not verified: the server computes no checksums".into(),
        Verification::Refused { reply } => format!("not verified: the server said {reply}"),
        Verification::Off => "not verified, as asked".into(),
    };
    format!("{text}; {checksum}\n")
}

fn rate(moved: u64, seconds: f64, mbps: f64) -> String {
    format!("{} in {seconds:.1} s, {mbps:.1} Mbit/s", bytes(moved))
}

/// Three significant digits and a decimal unit.
fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = match (unit, value) {
        (0, _) => 0,
        (_, small) if small < 9.995 => 2,
        (_, middle) if middle < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_000), "1.00 kB");
        assert_eq!(bytes(12_345), "12.3 kB");
        assert_eq!(bytes(134_217_728), "134 MB");
        assert_eq!(bytes(16_000_000_000), "16.0 GB");
    }
}
