//! Who hears how far transfers are, and says when they should stop.

/// Called from the threads of transfers, about twenty times a second and at most once for every
/// 256 KiB.
pub trait Progress: Send + Sync {
    /// So many more bytes belong to what is to be done.
    fn expect(&self, bytes: u64) {
        let _ = bytes;
    }

    /// File number `file` begins, or begins again, at byte `at`.
    fn begins(&self, file: usize, at: u64) {
        let _ = (file, at);
    }

    /// File number `file` has come to byte `at`.
    fn reaches(&self, file: usize, at: u64) {
        let _ = (file, at);
    }

    /// Something that the user should know, though the work goes on.
    fn note(&self, text: &str) {
        let _ = text;
    }

    /// The user wants an end.
    fn stopped(&self) -> bool {
        false
    }
}

/// Nobody hears anything.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {}
