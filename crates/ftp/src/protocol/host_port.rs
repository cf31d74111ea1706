//! Addresses of data connections as text: `h1,h2,h3,h4,p1,p2` (PORT and PASV, RFC 959) and
//! `|1|address|port|`, `|||port|` (EPRT and EPSV, RFC 2428).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

/// Why an address was not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It does not have the syntax of the command.
    #[error("not an address")]
    Syntax,
    /// Its family is neither IPv4 (1) nor IPv6 (2): reply 522.
    #[error("network protocol not supported, use (1,2)")]
    Family,
}

/// Parses the argument of PORT.
///
/// # Errors
/// [`AddressError::Syntax`] unless it is six numbers from 0 to 255.
pub fn parse_port(text: &str) -> Result<SocketAddr, AddressError> {
    let number = |part: &str| {
        let part = part.trim();
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok())?
    };
    let numbers: Option<Vec<u8>> = text.split(',').map(number).collect();
    let Some([a, b, c, d, high, low]) = numbers.as_deref() else {
        return Err(AddressError::Syntax);
    };
    let port = u16::from_be_bytes([*high, *low]);
    Ok(SocketAddrV4::new(Ipv4Addr::new(*a, *b, *c, *d), port).into())
}

/// Formats the argument of PORT, which is also the text between the parentheses of the reply to PASV.
pub fn format_port(address: SocketAddrV4) -> String {
    let [a, b, c, d] = address.ip().octets();
    let [high, low] = address.port().to_be_bytes();
    format!("{a},{b},{c},{d},{high},{low}")
}

/// Parses the text of a 227 reply to PASV: the first six numbers in it, with or without parentheses (RFC
/// 1123 section 4.1.2.6), and with spaces between them if there are no others.
///
/// # Errors
/// [`AddressError::Syntax`] if it has no six numbers.
pub fn parse_passive_reply(text: &str) -> Result<SocketAddr, AddressError> {
    let of_parts = |is_part: fn(char) -> bool| {
        let mut candidates = text.split(|c| !is_part(c));
        candidates.find_map(|candidate| parse_port(candidate).ok())
    };
    let dense = |c: char| c.is_ascii_digit() || c == ',';
    let spaced = |c: char| c.is_ascii_digit() || c == ',' || c.is_whitespace();
    of_parts(dense)
        .or_else(|| of_parts(spaced))
        .ok_or(AddressError::Syntax)
}

/// Parses the argument of EPRT.
///
/// # Errors
/// [`AddressError`] if the syntax is wrong, the family unknown or the port zero.
pub fn parse_eprt(text: &str) -> Result<SocketAddr, AddressError> {
    let delimiter = text
        .chars()
        .next()
        .filter(|c| matches!(c, '!'..='~'))
        .ok_or(AddressError::Syntax)?;
    let parts: Vec<&str> = text.split(delimiter).collect();
    let ["", family, address, port, ""] = parts[..] else {
        return Err(AddressError::Syntax);
    };
    let port = decimal_port(port)?;
    let address: IpAddr = match family {
        "1" => IpAddr::V4(address.parse().map_err(|_| AddressError::Syntax)?),
        "2" => IpAddr::V6(address.parse().map_err(|_| AddressError::Syntax)?),
        _ => return Err(AddressError::Family),
    };
    Ok(SocketAddr::new(address, port))
}

/// Formats the argument of EPRT.
pub fn format_eprt(address: SocketAddr) -> String {
    let family = if address.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{}|{}|", address.ip(), address.port())
}

/// Formats the text between the parentheses of the reply to EPSV.
pub fn format_epsv(port: u16) -> String {
    format!("|||{port}|")
}

/// Parses the port from the text of a 229 reply to EPSV.
///
/// # Errors
/// [`AddressError::Syntax`] if it has no port between parentheses and delimiters.
pub fn parse_epsv_reply(text: &str) -> Result<u16, AddressError> {
    let inside = text
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'))
        .ok_or(AddressError::Syntax)?
        .0;
    let delimiter = inside.chars().next().ok_or(AddressError::Syntax)?;
    match inside.split(delimiter).collect::<Vec<_>>()[..] {
        ["", "", "", port, ""] => decimal_port(port),
        _ => Err(AddressError::Syntax),
    }
}

fn decimal_port(text: &str) -> Result<u16, AddressError> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(AddressError::Syntax);
    }
    text.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or(AddressError::Syntax)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_six_octets() {
        assert_eq!(
            parse_port("192,0,2,1,4,210"),
            Ok("192.0.2.1:1234".parse().unwrap())
        );
        assert_eq!(
            format_port("192.0.2.1:1234".parse().unwrap()),
            "192,0,2,1,4,210"
        );
        for wrong in [
            "",
            "1,2,3,4,5",
            "1,2,3,4,5,6,7",
            "1,2,3,4,256,6",
            "1,2,3,4,+5,6",
            "1,2,3,4,5,x",
        ] {
            assert_eq!(parse_port(wrong), Err(AddressError::Syntax), "{wrong}");
        }
    }

    #[test]
    fn the_passive_reply_is_found_with_and_without_parentheses() {
        let address = Ok("192.0.2.1:1234".parse().unwrap());
        assert_eq!(
            parse_passive_reply("Entering Passive Mode (192,0,2,1,4,210)."),
            address
        );
        assert_eq!(
            parse_passive_reply("Entering Passive Mode. 192,0,2,1,4,210"),
            address
        );
        assert_eq!(
            parse_passive_reply("Entering Passive Mode (192, 0, 2, 1, 4, 210)"),
            address
        );
        assert_eq!(
            parse_passive_reply("Entering Passive Mode"),
            Err(AddressError::Syntax)
        );
    }

    #[test]
    fn eprt_knows_both_families_and_any_delimiter() {
        // The examples of RFC 2428 section 2.
        assert_eq!(
            parse_eprt("|1|132.235.1.2|6275|"),
            Ok("132.235.1.2:6275".parse().unwrap())
        );
        assert_eq!(
            parse_eprt("|2|1080::8:800:200C:417A|5282|"),
            Ok("[1080::8:800:200C:417A]:5282".parse().unwrap())
        );
        assert_eq!(
            parse_eprt("!1!132.235.1.2!6275!"),
            Ok("132.235.1.2:6275".parse().unwrap())
        );
        assert_eq!(parse_eprt("|3|x|1|"), Err(AddressError::Family));
        assert_eq!(parse_eprt("|1|::1|6275|"), Err(AddressError::Syntax));
        assert_eq!(parse_eprt("|1|132.235.1.2|0|"), Err(AddressError::Syntax));
        assert_eq!(format_eprt("[::1]:80".parse().unwrap()), "|2|::1|80|");
    }

    #[test]
    fn epsv_names_a_port_only() {
        assert_eq!(
            parse_epsv_reply("Entering Extended Passive Mode (|||6446|)"),
            Ok(6446)
        );
        assert_eq!(
            parse_epsv_reply("Entering Extended Passive Mode (|1|h|6446|)"),
            Err(AddressError::Syntax)
        );
        assert_eq!(format_epsv(6446), "|||6446|");
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged_text};
    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 6] = [
        "192,0,2,1,4,210",
        "Entering Passive Mode (192,0,2,1,4,210).",
        "|1|132.235.1.2|6275|",
        "|2|1080::8:800:200C:417A|5282|",
        "!1!132.235.1.2!6275!",
        "Entering Extended Passive Mode (|||6446|)",
    ];

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn what_is_written_is_read_again(v4: SocketAddrV4, ip: IpAddr, port in 1..=u16::MAX) {
            prop_assert_eq!(parse_port(&format_port(v4)), Ok(SocketAddr::V4(v4)));
            let address = SocketAddr::new(ip, port);
            prop_assert_eq!(parse_eprt(&format_eprt(address)), Ok(address));
        }

        #[test]
        fn replies_may_say_anything_around_an_address(
            before in "[^0-9,(]{0,20}",
            v4: SocketAddrV4,
            port in 1..=u16::MAX,
            after in "[^0-9,]{0,20}",
        ) {
            let passive = format!("{before}{}{after}", format_port(v4));
            prop_assert_eq!(parse_passive_reply(&passive), Ok(SocketAddr::V4(v4)));
            let extended = format!("{before}({}){after}", format_epsv(port));
            prop_assert_eq!(parse_epsv_reply(&extended), Ok(port));
        }

        #[test]
        fn what_is_read_has_a_text_that_is_read_alike(text in damaged_text(&TEXTS)) {
            if let Ok(SocketAddr::V4(address)) = parse_port(&text) {
                prop_assert_eq!(parse_port(&format_port(address)), Ok(SocketAddr::V4(address)));
                prop_assert_eq!(parse_passive_reply(&text), Ok(SocketAddr::V4(address)));
            }
            if let Ok(address) = parse_eprt(&text) {
                prop_assert_ne!(address.port(), 0);
                prop_assert_eq!(parse_eprt(&format_eprt(address)), Ok(address));
            }
            if let Ok(port) = parse_epsv_reply(&text) {
                prop_assert_ne!(port, 0);
            }
        }
    }
}
