//! `fairwind ls`: lists a server's directories.

use clap::Args;
use fairwind_ftp::client::{Entry, Kind, Place};
use serde_json::{Value, json};

use super::transfer::{self, Reach};
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// List directories of an FTP server
#[derive(Args)]
#[command(after_help = "\
Times are UTC, and missing where the server does not tell them in a form that programs understand.

Examples:
  fairwind ls ftp://ftp.example.org
  fairwind ls ftp://alice@ftp.example.org/run/ --json | jq -r '.[].name'")]
pub(crate) struct Ls {
    /// URL of a directory or file
    url: String,
    #[command(flatten)]
    reach: Reach,
    /// Print the entries as JSON and nothing else
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let place = transfer::place(&self.url)?;
        let bar = transfer::begin()?;
        let mut connection = transfer::connection(place.clone(), self.reach.options(&bar))?;
        let entries = connection.with(|session| {
            if !place.is_directory()
                && let Some(entry) = session.look(&place.path)?
                && entry.kind != Kind::Directory
            {
                return Ok(vec![named(entry, &place)]);
            }
            session.list(&place.path)
        });
        bar.clear();
        let entries = entries?;
        connection.close();
        if self.json {
            return Ok(output::json(&entries.iter().map(json).collect())?);
        }
        Ok(output::line(&text(&entries))?)
    }
}

fn named(entry: Entry, place: &Place) -> Entry {
    Entry {
        name: place.name().unwrap_or_default().to_vec(),
        ..entry
    }
}

fn kind(entry: &Entry) -> &'static str {
    match entry.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other | Kind::Unknown => "other",
    }
}

fn json(entry: &Entry) -> Value {
    json!({
        "name": entry.text(),
        "kind": kind(entry),
        "bytes": entry.size,
        "modified": entry.modified.map(|time| time.to_string()),
    })
}

fn text(entries: &[Entry]) -> String {
    let mut table = Table::new("modified | >bytes | name");
    for entry in entries {
        let modified = entry
            .modified
            .map(|time| time.strftime("%Y-%m-%d %H:%M:%S").to_string());
        let size = entry.size.filter(|_| entry.kind == Kind::File);
        let mark = match entry.kind {
            Kind::Directory => "/",
            Kind::Link => "@",
            _ => "",
        };
        table.row([
            modified.unwrap_or_else(|| "-".into()),
            size.map_or_else(|| "-".into(), |size| size.to_string()),
            format!("{}{mark}", entry.text()),
        ]);
    }
    table.render()
}
