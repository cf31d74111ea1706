//! `fairwind trace FILE`: a file of a trace.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_trace::file;
use serde_json::json;

use crate::failure::Failure;
use crate::output;

/// Show the file of a traced connection
#[derive(Args)]
pub(crate) struct Show {
    /// Parquet file of a trace
    file: PathBuf,
    /// Print all samples as CSV, instead of which connection it is
    #[arg(long)]
    csv: bool,
}

impl Show {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        show(&self.file, self.csv)
    }
}

/// Prints the connection's description, or all its samples.
pub(crate) fn show(path: &Path, csv: bool) -> Result<(), Failure> {
    if !csv {
        let connection = file::connection(path).map_err(Failure::input)?;
        return Ok(output::json(&json!(connection))?);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    file::write_csv(path, &mut out).map_err(Failure::input)??;
    Ok(out.flush()?)
}
