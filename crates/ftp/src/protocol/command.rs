//! Commands: a verb and its argument, parsed.

use std::fmt::Display;
use std::net::SocketAddr;

use jiff::Timestamp;

use super::host_port::{self, AddressError};
use super::path::one_line;
use super::{Reply, time};
use crate::protocol::digest::Algorithm;

/// Bytes `first..end` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    /// First byte, from 0.
    pub first: u64,
    /// The byte after the last one.
    pub end: u64,
}

/// How a file's bytes are sent (TYPE).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Representation {
    /// `A`: lines end with CR LF on the wire, with LF in the file.
    #[default]
    Ascii,
    /// `I`, `L 8`: the bytes as they are.
    Image,
}

/// What EPSV asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExtendedPassive {
    /// A port, in the control connection's family or the one named.
    Port(Option<Family>),
    /// From now on only EPSV may set up data connections.
    All,
}

/// The address families, as RFC 2428 numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// 1
    V4,
    /// 2
    V6,
}

/// A command. Paths are the bytes received, not yet resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the RFC's command of the same name")]
pub(crate) enum Command {
    User(String),
    Pass(Vec<u8>),
    Acct,
    Cwd(Vec<u8>),
    Cdup,
    Quit,
    Rein,
    Port(SocketAddr),
    Eprt(SocketAddr),
    Pasv,
    Epsv(ExtendedPassive),
    Type(Representation),
    Stru(u8),
    Mode(u8),
    Retr(Vec<u8>),
    Stor(Vec<u8>),
    Stou,
    Appe(Vec<u8>),
    Allo(u64),
    Rest(u64),
    /// The bytes that the next RETR or HASH applies to; none cancels an earlier RANG.
    Rang(Option<ByteRange>),
    Rnfr(Vec<u8>),
    Rnto(Vec<u8>),
    Abor,
    Dele(Vec<u8>),
    Rmd(Vec<u8>),
    Mkd(Vec<u8>),
    Pwd,
    List(Listing),
    Nlst(Listing),
    Mlsd(Vec<u8>),
    Mlst(Vec<u8>),
    Size(Vec<u8>),
    Mdtm(Vec<u8>),
    Mfmt(Timestamp, Vec<u8>),
    Stat(Option<Listing>),
    Help(String),
    Noop,
    Syst,
    Feat,
    /// RFC 7151
    Host(String),
    Opts {
        name: String,
        arguments: String,
    },
    Site {
        name: String,
        arguments: Vec<u8>,
    },
    /// The mechanism, in upper case.
    Auth(String),
    Pbsz(u32),
    Prot(u8),
    Ccc,
    /// Whether the server is to be the TLS client of its data connections; none asks whether it is.
    Sscn(Option<bool>),
    /// PASV, with the server as the TLS client of the data connection.
    Cpsv,
    Hash(Vec<u8>),
    /// XCRC, XMD5, XSHA1, XSHA256, XSHA512
    Checksum {
        algorithm: Algorithm,
        path: Vec<u8>,
        range: Option<ByteRange>,
    },
    /// A known FTP verb that is not implemented: reply 502.
    NotServed(String),
}

/// The argument of LIST, NLST and STAT.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Listing {
    /// `-a`, `-A`: include names that begin with a dot.
    pub hidden: bool,
    /// The path to list; empty for the working directory.
    pub path: Vec<u8>,
}

/// Verbs of RFC 959, 2228, 7151 and others that are known but not implemented.
const NOT_SERVED: &[&str] = &[
    "SMNT", "ADAT", "MIC", "CONF", "ENC", "LANG", "LPRT", "LPSV", "CLNT", "MFCT", "MFF", "SPSV",
    "CSID",
];

impl Command {
    /// Parses a line without its line ending.
    ///
    /// # Errors
    /// The reply to the client if the verb is unknown or its argument wrong.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, Reply> {
        if line.iter().any(|byte| matches!(byte, 0 | b'\n')) {
            return Err(binary());
        }
        let space = line
            .iter()
            .position(|byte| *byte == b' ')
            .unwrap_or(line.len());
        let (verb, argument) = (&line[..space], line.get(space + 1..).unwrap_or_default());
        if verb.is_empty() || verb.len() > 12 || !verb.iter().all(u8::is_ascii_alphanumeric) {
            if !verb.iter().all(|byte| (0x20..0x7f).contains(byte)) {
                return Err(binary());
            }
            let shown = one_line(&verb[..verb.len().min(32)]);
            return Err(unknown(&shown));
        }
        let verb = String::from_utf8_lossy(verb).to_ascii_uppercase();
        Self::from_parts(&verb, argument)
    }

    fn from_parts(verb: &str, argument: &[u8]) -> Result<Self, Reply> {
        Ok(match verb {
            "USER" => Self::User(text("USER", argument)?),
            "PASS" => Self::Pass(argument.to_vec()),
            "ACCT" => Self::Acct,
            "CWD" | "XCWD" => Self::Cwd(path("CWD", argument)?),
            "CDUP" | "XCUP" => Self::Cdup,
            "QUIT" => Self::Quit,
            "REIN" => Self::Rein,
            "PORT" => Self::Port(address(
                "PORT",
                host_port::parse_port(&text("PORT", argument)?),
            )?),
            "EPRT" => Self::Eprt(address(
                "EPRT",
                host_port::parse_eprt(&text("EPRT", argument)?),
            )?),
            "PASV" => Self::Pasv,
            "EPSV" => Self::Epsv(extended_passive(argument)?),
            "TYPE" => Self::Type(representation(argument)?),
            "STRU" => Self::Stru(letter("STRU", argument)?),
            "MODE" => Self::Mode(letter("MODE", argument)?),
            "RETR" => Self::Retr(path("RETR", argument)?),
            "STOR" => Self::Stor(path("STOR", argument)?),
            "STOU" => Self::Stou,
            "APPE" => Self::Appe(path("APPE", argument)?),
            "ALLO" => Self::Allo(allocation(argument)?),
            "REST" => Self::Rest(number("REST", argument)?),
            "RANG" => Self::Rang(range_to_send(argument)?),
            "RNFR" => Self::Rnfr(path("RNFR", argument)?),
            "RNTO" => Self::Rnto(path("RNTO", argument)?),
            "ABOR" => Self::Abor,
            "DELE" => Self::Dele(path("DELE", argument)?),
            "RMD" | "XRMD" => Self::Rmd(path("RMD", argument)?),
            "MKD" | "XMKD" => Self::Mkd(path("MKD", argument)?),
            "PWD" | "XPWD" => Self::Pwd,
            "LIST" => Self::List(Listing::parse(argument)),
            "NLST" => Self::Nlst(Listing::parse(argument)),
            "MLSD" => Self::Mlsd(argument.to_vec()),
            "MLST" => Self::Mlst(argument.to_vec()),
            "SIZE" => Self::Size(path("SIZE", argument)?),
            "MDTM" => Self::Mdtm(path("MDTM", argument)?),
            "MFMT" => modification(argument)?,
            "STAT" if argument.is_empty() => Self::Stat(None),
            "STAT" => Self::Stat(Some(Listing::parse(argument))),
            "HELP" => Self::Help(one_line(argument).trim().to_ascii_uppercase()),
            "NOOP" => Self::Noop,
            "SYST" => Self::Syst,
            "FEAT" => Self::Feat,
            "HOST" => Self::Host(host(argument)?),
            "OPTS" => {
                let (name, arguments) = first_word(argument);
                Self::Opts {
                    name: text("OPTS", name)?.to_ascii_uppercase(),
                    arguments: one_line(arguments).into_owned(),
                }
            }
            "SITE" => {
                let (name, arguments) = first_word(argument);
                Self::Site {
                    name: text("SITE", name)?.to_ascii_uppercase(),
                    arguments: arguments.to_vec(),
                }
            }
            "AUTH" => Self::Auth(text("AUTH", argument)?.to_ascii_uppercase()),
            "PBSZ" => Self::Pbsz(buffer_size(argument)?),
            "PROT" => Self::Prot(letter("PROT", argument)?),
            "CCC" => Self::Ccc,
            "SSCN" => Self::Sscn(secured_client(argument)?),
            "CPSV" => Self::Cpsv,
            "HASH" => Self::Hash(path("HASH", argument)?),
            "XCRC" => checksum(Algorithm::Crc32, argument)?,
            "XMD5" => checksum(Algorithm::Md5, argument)?,
            "XSHA" | "XSHA1" => checksum(Algorithm::Sha1, argument)?,
            "XSHA256" => checksum(Algorithm::Sha256, argument)?,
            "XSHA512" => checksum(Algorithm::Sha512, argument)?,
            known if NOT_SERVED.contains(&known) => Self::NotServed(known.to_owned()),
            other => return Err(unknown(other)),
        })
    }
}

impl Listing {
    /// Accepts the options of `ls(1)`, which clients send: `-la`, `-a pub`. A file whose name begins with
    /// `-` is written `./-name`.
    fn parse(argument: &[u8]) -> Self {
        let mut listing = Self::default();
        let mut rest = argument;
        while rest.first() == Some(&b'-') {
            let (options, next) = first_word(rest);
            listing.hidden |= options.iter().any(|option| matches!(option, b'a' | b'A'));
            rest = next;
        }
        listing.path = rest.to_vec();
        listing
    }
}

fn unknown(verb: &str) -> Reply {
    Reply::new(500, format!("Unknown command {verb:?}"))
}

fn binary() -> Reply {
    Reply::new(500, "Invalid characters in command")
}

/// RFC 2428
fn family(error: AddressError) -> Reply {
    Reply::new(522, error.to_string())
}

fn wrong(verb: &str, what: impl Display) -> Reply {
    Reply::new(501, format!("{verb}: {what}"))
}

fn path(verb: &str, argument: &[u8]) -> Result<Vec<u8>, Reply> {
    match argument {
        b"" => Err(wrong(verb, "path required")),
        path => Ok(path.to_vec()),
    }
}

fn text(verb: &str, argument: &[u8]) -> Result<String, Reply> {
    let text = std::str::from_utf8(argument).map_err(|_| wrong(verb, "not UTF-8"))?;
    match text.trim() {
        "" => Err(wrong(verb, "argument required")),
        text if text.chars().any(char::is_control) => Err(binary()),
        text => Ok(text.to_owned()),
    }
}

/// `HOST name`, `HOST 192.0.2.1` or `HOST [2001:db8::1]` (RFC 7151 section 3.1)
fn host(argument: &[u8]) -> Result<String, Reply> {
    let name = text("HOST", argument)?;
    if is_host_name(&name) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(wrong("HOST", "name of a host required"))
}

/// Whether HOST may give this name.
pub(crate) fn is_host_name(name: &str) -> bool {
    let address = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_host = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    is_host && name.len() <= 255
}

fn number(verb: &str, argument: &[u8]) -> Result<u64, Reply> {
    text(verb, argument)?
        .parse()
        .map_err(|_| wrong(verb, "number of bytes required"))
}

/// RFC 2228 section 3: a number of 32 bits.
fn buffer_size(argument: &[u8]) -> Result<u32, Reply> {
    text("PBSZ", argument)?
        .parse()
        .map_err(|_| wrong("PBSZ", "number of bytes required"))
}

/// `ON`, `OFF` or nothing.
fn secured_client(argument: &[u8]) -> Result<Option<bool>, Reply> {
    match argument.trim_ascii().to_ascii_uppercase().as_slice() {
        b"" => Ok(None),
        b"ON" => Ok(Some(true)),
        b"OFF" => Ok(Some(false)),
        _ => Err(wrong("SSCN", "ON or OFF required")),
    }
}

fn letter(verb: &str, argument: &[u8]) -> Result<u8, Reply> {
    match argument.trim_ascii() {
        [letter] if letter.is_ascii_alphabetic() => Ok(letter.to_ascii_uppercase()),
        _ => Err(wrong(verb, "letter required")),
    }
}

fn address(verb: &str, parsed: Result<SocketAddr, AddressError>) -> Result<SocketAddr, Reply> {
    parsed.map_err(|error| match error {
        AddressError::Syntax => wrong(verb, error),
        AddressError::Family => family(error),
    })
}

fn extended_passive(argument: &[u8]) -> Result<ExtendedPassive, Reply> {
    match argument.trim_ascii().to_ascii_uppercase().as_slice() {
        b"" => Ok(ExtendedPassive::Port(None)),
        b"ALL" => Ok(ExtendedPassive::All),
        b"1" => Ok(ExtendedPassive::Port(Some(Family::V4))),
        b"2" => Ok(ExtendedPassive::Port(Some(Family::V6))),
        other if other.iter().all(u8::is_ascii_digit) => Err(family(AddressError::Family)),
        _ => Err(wrong("EPSV", "expected 1, 2 or ALL")),
    }
}

fn representation(argument: &[u8]) -> Result<Representation, Reply> {
    match argument.trim_ascii().to_ascii_uppercase().as_slice() {
        b"A" | b"A N" => Ok(Representation::Ascii),
        b"I" | b"L 8" | b"L8" => Ok(Representation::Image),
        b"" => Err(wrong("TYPE", "type required")),
        other if other[0].is_ascii_alphabetic() => {
            Err(Reply::new(504, "TYPE: only A (N), I and L 8 are supported"))
        }
        _ => Err(wrong("TYPE", "letter required")),
    }
}

/// `ALLO size [R record-size]`
fn allocation(argument: &[u8]) -> Result<u64, Reply> {
    let (size, rest) = first_word(argument);
    match rest.trim_ascii() {
        b"" => number("ALLO", size),
        [b'R' | b'r', b' ', record @ ..] if number("ALLO", record).is_ok() => number("ALLO", size),
        _ => Err(wrong("ALLO", "number of bytes required")),
    }
}

/// `RANG first last`, both included; `RANG 1 0` cancels it (draft-bryan-ftp-range).
fn range_to_send(argument: &[u8]) -> Result<Option<ByteRange>, Reply> {
    let (first, last) = first_word(argument);
    match (number("RANG", first)?, number("RANG", last)?) {
        (1, 0) => Ok(None),
        (first, last) if first <= last && last < u64::MAX => Ok(Some(ByteRange {
            first,
            end: last + 1,
        })),
        _ => Err(wrong("RANG", "the last byte comes before the first")),
    }
}

/// `MFMT YYYYMMDDHHMMSS path` (draft-somers-ftp-mfxx)
fn modification(argument: &[u8]) -> Result<Command, Reply> {
    let (when, name) = first_word(argument);
    let when = std::str::from_utf8(when).ok().and_then(time::parse);
    let when = when.ok_or_else(|| wrong("MFMT", "expected a time: YYYYMMDDHHMMSS"))?;
    Ok(Command::Mfmt(when, path("MFMT", name)?))
}

/// `XSHA256 path`, `XSHA256 path first end`, with or without quotation marks around the path.
fn checksum(algorithm: Algorithm, argument: &[u8]) -> Result<Command, Reply> {
    let verb = algorithm.verb();
    let (name, range) = match argument.strip_prefix(b"\"") {
        Some(rest) => {
            let end = rest
                .iter()
                .position(|byte| *byte == b'"')
                .ok_or_else(|| wrong(verb, "a quotation mark is missing"))?;
            (&rest[..end], positions(&rest[end + 1..]))
        }
        None => without_quotes(argument),
    };
    let range = match range {
        Some((first, end)) if first > end => {
            return Err(wrong(verb, "the end comes before the start"));
        }
        range => range.map(|(first, end)| ByteRange { first, end }),
    };
    Ok(Command::Checksum {
        algorithm,
        path: path(verb, name)?,
        range,
    })
}

fn without_quotes(argument: &[u8]) -> (&[u8], Option<(u64, u64)>) {
    let mut spaces = argument
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b' ')
        .map(|(at, _)| at);
    let (_, second) = (spaces.next(), spaces.next());
    match second.and_then(|at| positions(&argument[at..]).map(|range| (at, range))) {
        Some((at, range)) => (&argument[..at], Some(range)),
        None => (argument, None),
    }
}

/// ` first end`: exactly two numbers, or none.
fn positions(text: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    let pair = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    numbers.next().is_none().then_some(pair)
}

fn first_word(argument: &[u8]) -> (&[u8], &[u8]) {
    match argument.iter().position(|byte| *byte == b' ') {
        Some(at) => (&argument[..at], argument[at + 1..].trim_ascii_start()),
        None => (argument, b""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(line: &[u8]) -> u16 {
        Command::parse(line).unwrap_err().code
    }

    #[test]
    fn verbs_have_no_case_and_arguments_keep_theirs() {
        assert_eq!(
            Command::parse(b"retr A b "),
            Ok(Command::Retr(b"A b ".to_vec()))
        );
        assert_eq!(Command::parse(b"XPWD"), Ok(Command::Pwd));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert_eq!(reply(b"RETR a\0b"), 500);
        assert_eq!(reply(b"\x16\x03\x01\x02"), 500);
        assert_eq!(reply(b""), 500);
        assert_eq!(reply(b"GET / HTTP/1.1"), 500);
        assert_eq!(reply(b"USER a\rb"), 500);
    }

    #[test]
    fn wrong_arguments_get_the_reply_of_the_rfc() {
        assert_eq!(reply(b"RETR"), 501);
        assert_eq!(reply(b"REST -1"), 501);
        assert_eq!(reply(b"REST 99999999999999999999"), 501);
        assert_eq!(reply(b"PORT 1,2,3"), 501);
        assert_eq!(reply(b"EPRT |7|x|1|"), 522);
        assert_eq!(reply(b"EPSV 3"), 522);
        assert_eq!(reply(b"TYPE E"), 504);
        assert_eq!(reply(b"MFMT yesterday x"), 501);
    }

    #[test]
    fn options_of_ls_are_understood() {
        let listing = |hidden, path: &[u8]| {
            Command::List(Listing {
                hidden,
                path: path.to_vec(),
            })
        };
        assert_eq!(Command::parse(b"LIST -la"), Ok(listing(true, b"")));
        assert_eq!(
            Command::parse(b"LIST -l a dir"),
            Ok(listing(false, b"a dir"))
        );
        assert_eq!(Command::parse(b"LIST"), Ok(listing(false, b"")));
        assert_eq!(Command::parse(b"LIST ./-a"), Ok(listing(false, b"./-a")));
    }

    #[test]
    fn a_checksum_may_be_of_a_part() {
        let expected = |path: &[u8], range: Option<(u64, u64)>| {
            Ok(Command::Checksum {
                algorithm: Algorithm::Sha256,
                path: path.to_vec(),
                range: range.map(|(first, end)| ByteRange { first, end }),
            })
        };
        assert_eq!(Command::parse(b"XSHA256 a b"), expected(b"a b", None));
        assert_eq!(
            Command::parse(b"XSHA256 \"a b\" 10 20"),
            expected(b"a b", Some((10, 20)))
        );
        assert_eq!(
            Command::parse(b"XSHA256 a 10 20"),
            expected(b"a", Some((10, 20)))
        );
        assert_eq!(reply(b"XSHA256 \"a b"), 501);
        assert_eq!(reply(b"XSHA256 a 20 10"), 501);
    }

    #[test]
    fn a_range_includes_its_last_byte() {
        assert_eq!(
            Command::parse(b"RANG 0 0"),
            Ok(Command::Rang(Some(ByteRange { first: 0, end: 1 })))
        );
        assert_eq!(Command::parse(b"RANG 1 0"), Ok(Command::Rang(None)));
        assert_eq!(reply(b"RANG 7 3"), 501);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    use super::*;

    const LINES: [&[u8]; 30] = [
        b"USER anonymous",
        b"PASS me@example.org",
        b"PORT 192,0,2,1,4,210",
        b"EPRT |2|2001:db8::7|5282|",
        b"EPSV ALL",
        b"TYPE L 8",
        b"STRU F",
        b"ALLO 1048576 R 512",
        b"REST 18446744073709551615",
        b"RANG 100 199",
        b"MFMT 20260302140007 pub/a b",
        b"LIST -la pub",
        b"STAT -a *.txt",
        b"OPTS MLST type;size;",
        b"OPTS HASH SHA-256",
        b"SITE CHMOD 644 a b",
        b"XSHA256 \"a b\" 10 20",
        b"XCRC a 0 99",
        b"HELP retr",
        b"MLSD /pub/\xc3\xa4",
        b"stor \xff\xfe ",
        b"RETR a  b",
        b"HOST ftp.example.org",
        b"HOST [2001:db8::7]",
        b"SITE UTIME a b 20260302140007 20260302140007 20260302140007 UTC",
        b"SSCN ON",
        b"SSCN",
        b"CPSV",
        b"SITE PEER KEY ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        b"SITE PEER OFF",
    ];

    /// The name in a command that ends with it.
    fn name(command: &Command) -> Option<&[u8]> {
        match command {
            Command::Pass(name)
            | Command::Cwd(name)
            | Command::Retr(name)
            | Command::Stor(name)
            | Command::Appe(name)
            | Command::Rnfr(name)
            | Command::Rnto(name)
            | Command::Dele(name)
            | Command::Rmd(name)
            | Command::Mkd(name)
            | Command::Mlsd(name)
            | Command::Mlst(name)
            | Command::Size(name)
            | Command::Mdtm(name)
            | Command::Mfmt(_, name)
            | Command::Hash(name) => Some(name.as_slice()),
            Command::List(listing) | Command::Nlst(listing) | Command::Stat(Some(listing)) => {
                Some(listing.path.as_slice())
            }
            Command::Site { arguments, .. } => Some(arguments.as_slice()),
            _ => None,
        }
    }

    fn is_plain(text: &str) -> bool {
        !text.is_empty() && !text.chars().any(char::is_control)
    }

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn a_line_is_a_sound_command_or_gets_a_reply_of_one_short_line(line in damaged(&LINES)) {
            match Command::parse(&line) {
                Ok(Command::User(text) | Command::Opts { name: text, .. }) => {
                    prop_assert!(is_plain(&text));
                }
                Ok(Command::Stru(letter) | Command::Mode(letter)) => {
                    prop_assert!(letter.is_ascii_uppercase());
                }
                Ok(Command::Host(name)) => {
                    prop_assert!(is_plain(&name) && name.len() <= 255 && name.is_ascii());
                }
                Ok(Command::Eprt(address)) => prop_assert_ne!(address.port(), 0),
                Ok(Command::Rang(Some(range))) => prop_assert!(range.first < range.end),
                Ok(Command::Sscn(on)) => {
                    let argument = line[4..].trim_ascii().to_ascii_uppercase();
                    let expected: &[u8] = on.map_or(b"", |on| if on { b"ON" } else { b"OFF" });
                    prop_assert_eq!(argument, expected);
                }
                Ok(Command::Checksum { path, range, .. }) => {
                    prop_assert!(!path.is_empty() && !path.contains(&0));
                    prop_assert!(range.is_none_or(|range| range.first <= range.end));
                }
                Ok(command) => {
                    // Names are the client's bytes: nothing in them is decoded or cut off.
                    let name = name(&command).unwrap_or_default();
                    prop_assert!(line.ends_with(name) && !name.contains(&0));
                }
                Err(reply) => {
                    prop_assert!(matches!(reply.code, 500 | 501 | 504 | 522));
                    let sent = reply.encode();
                    let controls = sent.iter().filter(|byte| byte.is_ascii_control()).count();
                    prop_assert!(sent.ends_with(b"\r\n") && controls == 2);
                    prop_assert!(sent.len() <= 128);
                }
            }
        }

        #[test]
        fn verbs_have_no_case(line in damaged(&LINES)) {
            let space = line.iter().position(|byte| *byte == b' ');
            let (verb, rest) = line.split_at(space.unwrap_or(line.len()));
            let parsed = |verb: Vec<u8>| {
                let command = Command::parse(&[verb.as_slice(), rest].concat());
                command.map_err(|reply| reply.code)
            };
            let lower = parsed(verb.to_ascii_lowercase());
            prop_assert_eq!(lower, parsed(verb.to_ascii_uppercase()));
        }
    }
}
