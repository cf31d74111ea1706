//! Quantities as text: `"50Mbit/s"`, `"10ms"`, `"1000pkt"`, `"75kB"`, `"0.5%"`.
//!
//! A quantity is a decimal number and a unit, with or without a space between them. Decimal prefixes are
//! powers of 1000, `KiB`, `MiB` and `GiB` powers of 1024. The number is read exactly (`"0.1s"` is 100,000,000
//! ns) and rounded to the nearest unit of the result.

use fairwind_path::units::{Bandwidth, Bytes, Duration};

/// Why a text is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// What is wrong.
    pub message: String,
    /// How to correct it.
    pub help: String,
}

/// A number of packets or of bytes, as queues and their thresholds are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Packets of any size.
    Packets(u64),
    /// Bytes.
    Bytes(u64),
}

/// A kind of quantity: its name, its units and an example.
struct Kind {
    noun: &'static str,
    /// Unit, and its size in the unit of the result.
    units: &'static [(&'static str, u64)],
    /// Units, each with the spellings that mean it elsewhere.
    elsewhere: &'static [(&'static str, &'static str)],
    example: &'static str,
}

const DURATION: Kind = Kind {
    noun: "a time",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("µs", 1_000),
        ("μs", 1_000),
    ],
    elsewhere: &[
        ("s", "sec secs second seconds"),
        ("ms", "msec"),
        ("us", "usec"),
        ("min", "m minutes"),
        ("h", "hours"),
    ],
    example: "10ms",
};

const BANDWIDTH: Kind = Kind {
    noun: "a bandwidth",
    units: &[
        ("bit/s", 1),
        ("kbit/s", 1_000),
        ("Mbit/s", 1_000_000),
        ("Gbit/s", 1_000_000_000),
        ("Tbit/s", 1_000_000_000_000),
        ("B/s", 8),
        ("kB/s", 8_000),
        ("MB/s", 8_000_000),
        ("GB/s", 8_000_000_000),
    ],
    elsewhere: &[
        ("bit/s", "bps b/s"),
        ("kbit/s", "kbps kbit kb/s"),
        ("Mbit/s", "mbps mbit mb/s"),
        ("Gbit/s", "gbps gbit gb/s"),
    ],
    example: "50Mbit/s",
};

const BYTES: Kind = Kind {
    noun: "a size",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1_024),
        ("MiB", 1_048_576),
        ("GiB", 1_073_741_824),
    ],
    elsewhere: &[("B", "byte bytes"), ("kB", "k"), ("MB", "m"), ("GB", "g")],
    example: "500MB",
};

const PACKETS: Kind = Kind {
    noun: "a number of packets",
    units: &[("pkt", 1)],
    elsewhere: &[("pkt", "pkts packet packets p")],
    example: "1000pkt",
};

/// Parses a duration of 0 or more, such as `"10ms"`: ns, us, ms, s, min, h.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    quantity(text, &DURATION).map(Duration::from_nanos)
}

/// Parses a bandwidth of 0 or more, such as `"50Mbit/s"`: bit/s, kbit/s ... Tbit/s, B/s, kB/s, MB/s, GB/s.
pub fn bandwidth(text: &str) -> Result<Bandwidth, UnitError> {
    quantity(text, &BANDWIDTH).map(Bandwidth::from_bps)
}

/// Parses a number of bytes, such as `"500MB"`: B, kB, MB, GB, TB, KiB, MiB, GiB.
pub fn bytes(text: &str) -> Result<Bytes, UnitError> {
    quantity(text, &BYTES).map(Bytes)
}

/// Parses packets, such as `"1000pkt"`, or bytes, such as `"75kB"`.
pub fn amount(text: &str) -> Result<Amount, UnitError> {
    let (_, unit) = split(text);
    let is_of = |kind: &Kind| kind.units.iter().any(|(name, _)| *name == unit);
    if is_of(&PACKETS) {
        return quantity(text, &PACKETS).map(Amount::Packets);
    }
    if is_of(&BYTES) {
        return quantity(text, &BYTES).map(Amount::Bytes);
    }
    let mut error = match quantity(text, &PACKETS) {
        Err(error) if translation(unit, &PACKETS).is_some() => error,
        _ => quantity(text, &BYTES)
            .err()
            .unwrap_or_else(|| unknown_unit(text, unit, &BYTES)),
    };
    if translation(unit, &PACKETS).is_none() && translation(unit, &BYTES).is_none() {
        error.help = "write packets as \"50pkt\" or bytes as \"75kB\"".into();
    }
    Err(error)
}

/// Parses a share between 0 and 1, such as `"0.5%"`.
pub fn percentage(text: &str) -> Result<f64, UnitError> {
    let wrong = || UnitError {
        message: format!("\"{text}\" is not a probability"),
        help: "write a number from 0 to 1, or a percentage such as \"0.5%\"".into(),
    };
    let number = text.trim().strip_suffix('%').ok_or_else(wrong)?.trim_end();
    // Scaled in decimal, so that "0.5%" and 0.005 are the same number.
    let share: f64 = format!("{number}e-2").parse().map_err(|_| wrong())?;
    if number.is_empty() || !(0.0..=1.0).contains(&share) {
        return Err(wrong());
    }
    Ok(share)
}

/// Parses the value of a congestion control's parameter with this unit, in that unit: `"50ms"` for `us`, rounded
/// to the nearest, `"300pkt"` for `packets`, `"on"` or `"off"` for `on/off`.
pub fn parameter(text: &str, unit: &str) -> Option<i64> {
    match (unit, text) {
        ("us", _) => i64::try_from((duration(text).ok()?.as_nanos() + 500) / 1_000).ok(),
        ("packets", _) => match amount(text).ok()? {
            Amount::Packets(packets) => i64::try_from(packets).ok(),
            Amount::Bytes(_) => None,
        },
        ("on/off", "on") => Some(1),
        ("on/off", "off") => Some(0),
        _ => None,
    }
}

fn quantity(text: &str, kind: &Kind) -> Result<u64, UnitError> {
    let (number, unit) = split(text);
    let Kind { noun, example, .. } = kind;
    if number.starts_with('-') {
        return Err(UnitError {
            message: format!("\"{text}\" is negative"),
            help: format!("write {noun} of 0 or more, such as \"{example}\""),
        });
    }
    let Some((digits, decimals)) = decimal(number) else {
        return Err(UnitError {
            message: format!("\"{text}\" is not {noun}"),
            help: format!("write a number and a unit, such as \"{example}\""),
        });
    };
    let Some((_, factor)) = kind.units.iter().find(|(name, _)| *name == unit) else {
        return Err(unknown_unit(text, unit, kind));
    };
    let scale = 10u128.pow(decimals);
    digits
        .checked_mul(u128::from(*factor))
        .map(|product| (product + scale / 2) / scale)
        .and_then(|value| u64::try_from(value).ok())
        .ok_or_else(|| UnitError {
            message: format!("\"{text}\" is too large"),
            help: format!("write a smaller number, such as \"{example}\""),
        })
}

/// The number and the unit of a text, trimmed.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | '_')))
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// The digits without the decimal point, and the number of decimals.
fn decimal(number: &str) -> Option<(u128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    // 24 digits times the largest unit fit into 128 bits.
    if digits.is_empty() || digits.len() > 24 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, fraction.len() as u32))
}

fn unknown_unit(text: &str, unit: &str, kind: &Kind) -> UnitError {
    let Kind { noun, example, .. } = kind;
    let message = if unit.is_empty() {
        format!("\"{text}\" has no unit")
    } else {
        format!("`{unit}` is not a unit of {noun}")
    };
    let help = match translation(unit, kind) {
        Some(right) => format!("write \"{}{right}\"", split(text).0),
        None => {
            let names = kind.units.iter().map(|(name, _)| *name);
            let names: Vec<&str> = names.filter(|name| name.is_ascii()).collect();
            format!("units of {noun} are {}: \"{example}\"", names.join(", "))
        }
    };
    UnitError { message, help }
}

/// The unit that an unknown one was probably meant to be.
fn translation(unit: &str, kind: &Kind) -> Option<&'static str> {
    let lower = unit.to_lowercase();
    let known = kind.units.iter().map(|(name, _)| (*name, *name));
    let mut all = kind.elsewhere.iter().copied().chain(known);
    all.find(|(_, theirs)| theirs.split(' ').any(|one| one.to_lowercase() == lower))
        .map(|(ours, _)| ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_exactly() {
        assert_eq!(duration("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(duration("0.1s"), Ok(Duration::from_nanos(100_000_000)));
        assert_eq!(duration("2.5 us"), Ok(Duration::from_nanos(2_500)));
        assert_eq!(duration("5min"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(duration("0ms"), Ok(Duration::ZERO));
        assert_eq!(duration("7µs"), Ok(Duration::from_micros(7)));
    }

    #[test]
    fn what_is_finer_than_a_nanosecond_is_rounded() {
        assert_eq!(duration("1.4ns"), Ok(Duration::from_nanos(1)));
        assert_eq!(duration("1.5ns"), Ok(Duration::from_nanos(2)));
    }

    #[test]
    fn bandwidths_are_bits_a_second() {
        assert_eq!(bandwidth("50Mbit/s"), Ok(Bandwidth::from_bps(50_000_000)));
        assert_eq!(bandwidth("384kbit/s"), Ok(Bandwidth::from_bps(384_000)));
        assert_eq!(bandwidth("1.5 Mbit/s"), Ok(Bandwidth::from_bps(1_500_000)));
        assert_eq!(bandwidth("1MB/s"), Ok(Bandwidth::from_bps(8_000_000)));
    }

    #[test]
    fn sizes_know_decimal_and_binary_prefixes() {
        assert_eq!(bytes("75kB"), Ok(Bytes(75_000)));
        assert_eq!(bytes("64KiB"), Ok(Bytes(65_536)));
        assert_eq!(bytes("1460B"), Ok(Bytes(1_460)));
    }

    #[test]
    fn an_amount_is_packets_or_bytes() {
        assert_eq!(amount("1000pkt"), Ok(Amount::Packets(1_000)));
        assert_eq!(amount("75kB"), Ok(Amount::Bytes(75_000)));
    }

    #[test]
    fn a_percentage_is_the_same_number_as_its_share() {
        assert_eq!(percentage("0.5%"), Ok(0.005));
        assert_eq!(percentage("100%"), Ok(1.0));
        assert!(percentage("101%").is_err());
        assert!(percentage("%").is_err());
        assert!(percentage("0.5").is_err());
    }

    fn words<T: std::fmt::Debug>(result: Result<T, UnitError>) -> String {
        let error = result.expect_err("wrong text must be refused");
        format!("{}; {}", error.message, error.help)
    }

    #[test]
    fn a_unit_from_elsewhere_is_named_with_what_it_is_here() {
        assert_eq!(
            words(bandwidth("10Mbps")),
            "`Mbps` is not a unit of a bandwidth; write \"10Mbit/s\""
        );
        assert_eq!(
            words(duration("10 sec")),
            "`sec` is not a unit of a time; write \"10s\""
        );
        assert_eq!(
            words(amount("50 packets")),
            "`packets` is not a unit of a number of packets; write \"50pkt\""
        );
    }

    #[test]
    fn a_wrong_unit_is_answered_with_the_right_ones() {
        assert_eq!(
            words(duration("10Mbit/s")),
            "`Mbit/s` is not a unit of a time; units of a time are ns, us, ms, s, min, h: \"10ms\""
        );
        assert_eq!(
            words(duration("10")),
            "\"10\" has no unit; units of a time are ns, us, ms, s, min, h: \"10ms\""
        );
        assert_eq!(
            words(amount("50ms")),
            "`ms` is not a unit of a size; write packets as \"50pkt\" or bytes as \"75kB\""
        );
    }

    #[test]
    fn negative_empty_and_enormous_texts_are_refused() {
        assert_eq!(
            words(duration("-10ms")),
            "\"-10ms\" is negative; write a time of 0 or more, such as \"10ms\""
        );
        assert_eq!(
            words(duration("fast")),
            "\"fast\" is not a time; write a number and a unit, such as \"10ms\""
        );
        assert_eq!(
            words(duration("")),
            "\"\" is not a time; write a number and a unit, such as \"10ms\""
        );
        assert_eq!(
            words(duration("99999999999999999999h")),
            "\"99999999999999999999h\" is too large; write a smaller number, such as \"10ms\""
        );
        assert!(duration("1.2.3s").is_err());
        assert!(duration("0.0000000000000000000000001s").is_err());
    }
}
