//! The extensions that a server announces (FEAT, RFC 2389).

use crate::protocol::Reply;
use crate::protocol::digest::Algorithm;
use crate::protocol::path::one_line;

/// The lines of a reply to FEAT; empty if the server does not support the command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features(Vec<String>);

impl Features {
    /// Parses the reply to FEAT, whose first and last line are free text.
    pub fn read(reply: &Reply) -> Self {
        match (reply.code, reply.lines.len()) {
            (211, count @ 3..) => Self(
                reply.lines[1..count - 1]
                    .iter()
                    .map(|line| one_line(line).trim().to_owned())
                    .collect(),
            ),
            _ => Self::default(),
        }
    }

    /// The parameters of a feature; empty if it has none, `None` if the server lacks the feature.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|line| {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            word.eq_ignore_ascii_case(name).then_some(rest.trim())
        })
    }

    /// Whether the server has a feature; names are compared without regard to case.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether the server has this line, whose words are compared without regard to case.
    pub fn lists(&self, line: &str) -> bool {
        self.0.iter().any(|known| known.eq_ignore_ascii_case(line))
    }

    /// The algorithms that HASH supports, and whether each is the selected one.
    pub fn hashes(&self) -> Vec<(Algorithm, bool)> {
        self.get("HASH")
            .unwrap_or_default()
            .split(';')
            .filter_map(|name| {
                let name = name.trim();
                let chosen = name.ends_with('*');
                Some((name.trim_end_matches('*').parse().ok()?, chosen))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_between_the_first_and_the_last_line() {
        let lines = [
            "Extensions:",
            "SIZE",
            "rest STREAM",
            "HASH SHA-256*;MD5;X",
            "SITE CHMOD",
            "SITE PEER",
            "END",
        ];
        let features = Features::read(&Reply::lines(211, lines.into()));
        assert!(features.has("size"));
        assert_eq!(features.get("REST"), Some("STREAM"));
        assert!(features.lists("SITE PEER") && !features.lists("SITE WHO"));
        assert!(!features.has("END") && !features.has("Extensions:"));
        assert_eq!(
            features.hashes(),
            [(Algorithm::Sha256, true), (Algorithm::Md5, false)]
        );
        assert_eq!(Features::read(&Reply::new(502, "No")), Features::default());
    }
}
