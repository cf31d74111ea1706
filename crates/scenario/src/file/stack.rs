//! The generation of TCP that hosts use.

use schemars::JsonSchema;

/// The TCP of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub enum Stack {
    /// Linux 6.x.
    #[schemars(rename = "linux")]
    Linux,
    /// Linux 2.4, the papers' days: initial window 2, three duplicate ACKs, SACK, no pacing, RACK,
    /// PRR or autotuning.
    #[schemars(rename = "2005")]
    Classic2005,
}

impl Stack {
    /// The words in the experiment file.
    pub const WORDS: &'static [(&'static str, Stack)] =
        &[("linux", Stack::Linux), ("2005", Stack::Classic2005)];

    /// The word for it in files and results.
    pub fn word(self) -> &'static str {
        let mut words = Stack::WORDS.iter();
        words
            .find(|(_, stack)| *stack == self)
            .expect("each has a word")
            .0
    }

    /// The congestion control of a flow that names none.
    pub(crate) fn default_control(self) -> &'static str {
        match self {
            Stack::Linux => "cubic",
            Stack::Classic2005 => "reno",
        }
    }
}
