//! `fairwind ls`: lists a server's directories.

use clap::Args;
use fairwind_ftp::client::{ClientError, Connection, Entry, Kind, Selection};
use serde_json::{Value, json};

use super::remote::{Remote, selections};
use super::transfer::Reach;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// List directories of an FTP server
#[derive(Args)]
#[command(after_help = "\
Times are UTC, and missing where the server does not tell them in a form that programs understand.

Patterns in the URL select entries: * ? [a-z] within a name, ** for any directories. Quote them against
the shell.

Examples:
  fairwind ls ftp://ftp.example.org
  fairwind ls 'ftp://ftp.example.org/pub/**/*.iso'
  fairwind ls ftp://alice@ftp.example.org/run/ --json | jq -r '.[].name'")]
pub(crate) struct Ls {
    /// URL of a directory or file; with patterns if wanted
    url: String,
    #[command(flatten)]
    reach: Reach,
    /// Print the entries as JSON and nothing else
    #[arg(long)]
    json: bool,
}

impl Ls {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let selections = selections(std::slice::from_ref(&self.url))?;
        let mut remote = Remote::of(&selections, &self.reach)?;
        let entries = entries(&selections[0], &mut remote.connection)?;
        remote.end()?;
        if self.json {
            return Ok(output::json(&entries.iter().map(json).collect())?);
        }
        Ok(output::line(&text(&entries))?)
    }
}

/// What is in the directory that is named, the file, or all that matches the patterns.
fn entries(selection: &Selection, connection: &mut Connection) -> Result<Vec<Entry>, ClientError> {
    if selection.has_patterns() {
        let found = selection.find(connection)?.into_iter();
        let named = found.filter_map(|found| {
            let name = found.name;
            found.entry.map(|entry| Entry { name, ..entry })
        });
        return Ok(named.collect());
    }
    let place = selection.base();
    connection.with(|session| {
        if !place.is_directory()
            && let Some(entry) = session.look(&place.path)?
            && entry.kind != Kind::Directory
        {
            let name = place.name().unwrap_or_default().to_vec();
            return Ok(vec![Entry { name, ..entry }]);
        }
        session.list(&place.path)
    })
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
