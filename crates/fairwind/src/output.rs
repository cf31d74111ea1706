//! Standard output and standard error. `print!` and `eprint!` panic when the reader of a pipe has gone; these functions do
//! not.

use std::io::{self, Write};

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
