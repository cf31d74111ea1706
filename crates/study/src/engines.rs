//! What runs a study.

/// The engines of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engines {
    /// The simulator.
    Sim,
    /// The running kernel.
    Lab,
    /// Both.
    Both,
}

impl Engines {
    /// The words of plans and of the command line.
    pub const WORDS: &'static [(&'static str, Engines)] = &[
        ("sim", Engines::Sim),
        ("lab", Engines::Lab),
        ("both", Engines::Both),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        let found = Engines::WORDS.iter().find(|(_, engines)| *engines == self);
        found.expect("all have words").0
    }

    /// Their words.
    pub fn words(all: &[Engines], between: &str) -> String {
        let words: Vec<&str> = all.iter().map(|engine| engine.word()).collect();
        words.join(between)
    }

    /// Whether the simulator is one of them.
    pub fn has_sim(self) -> bool {
        self != Engines::Lab
    }

    /// Whether the lab is one of them.
    pub fn has_lab(self) -> bool {
        self != Engines::Sim
    }
}
