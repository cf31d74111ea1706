//! Standard output, standard error, and files for what is known when a command has run. `print!` and `eprint!` panic when the
//! reader of a pipe has gone; these functions do not.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Writes the text and a line end, if it has none.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &serde_json::Value) -> io::Result<()> {
    line(&format!("{value:#}"))
}

/// Writes the text and a line end, if it has none, to standard error. If its reader has gone, nobody is left to be told.
pub(crate) fn note(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(io::stderr(), "{text}{end}");
}

/// A file for what is known only when a command has run. It is opened before, as it would be too late to refuse afterwards.
/// What is in it stays until then.
pub(crate) struct LaterFile {
    path: PathBuf,
    file: File,
}

impl LaterFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        Ok(Self {
            file: options.open(path).map_err(Failure::at(path))?,
            path: path.to_owned(),
        })
    }

    /// Puts the text, as a line, in the place of what is in it.
    pub(crate) fn replace(mut self, text: &str) -> Result<(), Failure> {
        // A pipe has no length.
        let _ = self.file.set_len(0);
        writeln!(self.file, "{text}").map_err(Failure::at(&self.path))
    }
}
