//! Checksums that servers compute of their files: HASH (draft-bryan-ftpext-hash), XSHA256 and the like.

use std::time::Duration;

use serde::Serialize;

use super::ahead::Command;
use super::{ClientError, Features, Session};
use crate::protocol::Reply;
use crate::protocol::digest::Algorithm;
use crate::protocol::path::one_line;

/// Assumed rate of the slowest server at reading and hashing a file, bytes/s.
const SLOWEST: u64 = 20_000_000;

/// A checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checksum {
    /// The algorithm's name, such as `SHA-256`.
    pub algorithm: &'static str,
    /// Lower-case hexadecimal digits.
    pub value: String,
}

/// How far the content of a transferred file is known to be right.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Verification {
    /// Both copies have the same checksum.
    Verified(Checksum),
    /// The server computes no checksums: only the number of bytes has been compared.
    NotOffered,
    /// The server offers checksums but refused one of this file.
    Refused {
        /// The server's reply.
        reply: String,
    },
    /// The user turned checksums off.
    #[default]
    Off,
}

/// How a server is asked for a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    /// The HASH command.
    Hash(Algorithm),
    /// A command for one algorithm: XSHA256, XSHA512, XSHA1, XSHA, XMD5, XCRC.
    Own(Algorithm, &'static str),
}

impl Method {
    /// What the server offers, the strongest algorithm first.
    pub(super) fn offered(features: &Features) -> Vec<Self> {
        let hashes = features.hashes();
        let own = |algorithm: Algorithm| match algorithm {
            // Some servers have the longer name, some the shorter one.
            Algorithm::Sha1 => vec![algorithm.verb(), "XSHA"],
            _ => vec![algorithm.verb()],
        };
        let offered = Algorithm::ALL.into_iter().flat_map(|algorithm| {
            let same = hashes.iter().filter(move |(hash, _)| *hash == algorithm);
            let has = own(algorithm).into_iter().filter(|verb| features.has(verb));
            let own = has.map(move |verb| Self::Own(algorithm, verb));
            same.map(|(hash, _)| Self::Hash(*hash)).chain(own)
        });
        offered.collect()
    }

    /// The algorithm it computes.
    pub(super) fn algorithm(self) -> Algorithm {
        match self {
            Self::Hash(algorithm) | Self::Own(algorithm, _) => algorithm,
        }
    }

    /// The command that asks for the checksum of a file.
    pub(super) fn request(self, path: &[u8]) -> Command {
        match self {
            Self::Hash(_) => ("HASH", path.to_vec()),
            Self::Own(_, verb) if path.contains(&b' ') => (verb, [b"\"", path, b"\""].concat()),
            Self::Own(_, verb) => (verb, path.to_vec()),
        }
    }
}

impl Session {
    /// Has the server compute a checksum of a file; the inner error is its refusal.
    pub(super) fn remote_checksum(
        &mut self,
        method: Method,
        path: &[u8],
        size: Option<u64>,
    ) -> Result<Result<String, String>, ClientError> {
        let reading = Duration::from_secs(size.unwrap_or(1 << 40) / SLOWEST);
        let patience = self.options.patience + reading;
        let reply = match self.checksum_ahead(method, path, patience)? {
            Some(reply) => reply,
            None => {
                self.choose(method)?;
                let (verb, argument) = method.request(path);
                self.control.send(verb, &argument)?;
                self.control.last_reply(patience)?
            }
        };
        self.checksum_in(method, &reply)
    }

    /// The checksum in a reply; the inner error is a refusal.
    pub(super) fn checksum_in(
        &self,
        method: Method,
        reply: &Reply,
    ) -> Result<Result<String, String>, ClientError> {
        if !reply.is_positive() {
            return Ok(Err(reply.to_string()));
        }
        match find(&reply.text(), method.algorithm()) {
            Some(value) => Ok(Ok(value)),
            None => Err(self.control.protocol_error(&format!(
                "no {} in {:?}",
                method.algorithm(),
                one_line(reply.text().as_bytes())
            ))),
        }
    }

    /// Has the server compute checksums by this method from now on.
    pub(super) fn choose(&mut self, method: Method) -> Result<(), ClientError> {
        let Method::Hash(algorithm) = method else {
            return Ok(());
        };
        let chosen = self.chosen_hash.or_else(|| {
            let hashes = self.features.hashes();
            hashes
                .iter()
                .find(|(_, chosen)| *chosen)
                .map(|(hash, _)| *hash)
        });
        if chosen != Some(algorithm) {
            self.control
                .must("OPTS", format!("HASH {algorithm}").as_bytes())?;
            self.chosen_hash = Some(algorithm);
        }
        Ok(())
    }
}

/// The checksum in a reply: the first word of the right length and alphabet.
fn find(text: &str, algorithm: Algorithm) -> Option<String> {
    let digits = algorithm.start().finish().len();
    text.split_ascii_whitespace()
        .map(|word| word.trim_matches(['"', ';', '.']))
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .find(|word| match algorithm {
            // Some servers omit leading zeroes.
            Algorithm::Crc32 => (1..=digits).contains(&word.len()),
            _ => word.len() == digits,
        })
        .map(|word| format!("{:0>digits$}", word.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(lines: &[&str]) -> Vec<Method> {
        let mut all = vec!["Features:".to_owned()];
        all.extend(lines.iter().map(|line| line.to_string()));
        all.push("End".into());
        Method::offered(&Features::read(&Reply::lines(211, all)))
    }

    #[test]
    fn the_strongest_that_the_server_has_comes_first() {
        assert_eq!(
            offered(&["XCRC", "XSHA256", "HASH MD5*;SHA-1"]),
            [
                Method::Own(Algorithm::Sha256, "XSHA256"),
                Method::Hash(Algorithm::Sha1),
                Method::Hash(Algorithm::Md5),
                Method::Own(Algorithm::Crc32, "XCRC"),
            ]
        );
        assert_eq!(offered(&["SIZE"]), []);
    }

    #[test]
    fn the_checksum_is_found_in_replies_of_all_sorts() {
        let sha = "80bc95fd391772fa61c91ed68567f0980bb45fd9f2e2f9c0b4d0c1a5d4d3f6a7";
        let hash = format!("SHA-256 0-49 {sha} name.ext");
        assert_eq!(find(&hash, Algorithm::Sha256).unwrap(), sha);
        assert_eq!(find(&sha.to_uppercase(), Algorithm::Sha256).unwrap(), sha);
        assert_eq!(find("XCRC AB12", Algorithm::Crc32).unwrap(), "0000ab12");
        assert_eq!(find("OK", Algorithm::Md5), None);
    }
}
