//! Times of files: `YYYYMMDDHHMMSS[.fraction]`, UTC (RFC 3659 section 2.3).

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Parses a time; none if it is malformed.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 14 || !digits(whole) || !digits(fraction) {
        return None;
    }
    // A leap second, which RFC 3659 allows, becomes the second before it.
    let text = format!("{whole}.{}", &fraction[..fraction.len().min(9)]);
    let time = DateTime::strptime("%Y%m%d%H%M%S%.f", text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Formats a time in whole seconds.
pub(crate) fn format(time: Timestamp) -> String {
    time.strftime("%Y%m%d%H%M%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_fourteen_digits_and_a_fraction() {
        // The examples of RFC 3659 section 2.3.
        assert_eq!(
            parse("19980615100045.014").unwrap().to_string(),
            "1998-06-15T10:00:45.014Z"
        );
        assert_eq!(
            parse("19990929003355").unwrap().to_string(),
            "1999-09-29T00:33:55Z"
        );
        assert_eq!(
            parse("20161231235960").unwrap().to_string(),
            "2016-12-31T23:59:59Z"
        );
        for wrong in [
            "",
            "1998061510004",
            "19981315100045",
            "19980615100045.",
            "1998061510004x",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            format("1999-09-29T00:33:55Z".parse().unwrap()),
            "19990929003355"
        );
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged_text};
    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 4] = [
        "19980615100045.014",
        "20240229235959",
        "20161231235960",
        "99991231235959.999999999",
    ];

    proptest! {
        #![proptest_config(cases(256))]

        /// Whole seconds of the years 1970 to 9998.
        #[test]
        fn what_is_written_is_read_again(second in 0..253_370_764_800_i64) {
            let time = Timestamp::from_second(second).unwrap();
            prop_assert_eq!(parse(&format(time)), Some(time));
        }

        #[test]
        fn what_is_read_has_the_text_that_it_was_read_from(text in damaged_text(&TEXTS)) {
            if let Some(time) = parse(&text) {
                // But for the leap second.
                let whole = format(time);
                prop_assert_eq!(&whole[..12], &text[..12]);
                prop_assert!(whole[12..] == text[12..14] || &text[12..14] == "60");
            }
        }
    }
}
