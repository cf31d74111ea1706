//! `fairwind du`: how much is below directories of a server.

use clap::Args;
use fairwind_ftp::client::{Kind, Usage, join, printable, usage};
use serde_json::{Value, json};

use super::remote::{Remote, selections};
use super::transfer::Reach;
use crate::failure::Failure;
use crate::output;
use crate::table::Table;

/// Sum up the sizes of files below directories of an FTP server
#[derive(Args)]
#[command(after_help = "\
Sizes are those that the server lists, not what the files take on its disks.

Examples:
  fairwind du ftp://ftp.example.org/pub
  fairwind du --depth 1 ftp://alice@ftp.example.org/runs
  fairwind du 'ftp://alice@ftp.example.org/runs/20*' --json | jq '.[] | .bytes'")]
pub(crate) struct Du {
    /// URLs of one server and user; with patterns if wanted
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    /// Tell directories down to this depth below each URL, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: usize,
    #[command(flatten)]
    reach: Reach,
    /// Print the sums as JSON and nothing else
    #[arg(long)]
    json: bool,
}

/// A sum, and the path that it is shown with.
struct Sum {
    path: Vec<u8>,
    usage: Usage,
}

impl Du {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let selections = selections(&self.urls)?;
        let mut remote = Remote::of(&selections, &self.reach)?;
        let mut sums = Vec::new();
        for found in remote.find(&selections)? {
            let place = found.place;
            let entry = match found.entry {
                Some(entry) => Some(entry),
                None => remote
                    .connection
                    .with(|session| session.look(&place.path))?,
            };
            let Some(entry) = entry else {
                remote.fail(format!("{place}: there is no such file or directory"));
                continue;
            };
            if entry.kind != Kind::Directory {
                let usage = Usage {
                    bytes: entry.size.unwrap_or_default(),
                    files: 1,
                    unknown: u64::from(entry.size.is_none()),
                    ..Usage::default()
                };
                let path = place.path;
                sums.push(Sum { path, usage });
                continue;
            }
            let (usages, refused) = usage(&mut remote.connection, &place.path)?;
            for refused in refused {
                remote.fail(refused);
            }
            let depth = |usage: &Usage| {
                let names = usage.path.split(|byte| *byte == b'/');
                names.filter(|name| !name.is_empty()).count()
            };
            let shown = usages
                .into_iter()
                .filter(|usage| depth(usage) <= self.depth);
            sums.extend(shown.map(|usage| Sum {
                path: match usage.path.is_empty() {
                    true => place.path.clone(),
                    false => join(&place.path, &usage.path),
                },
                usage,
            }));
        }
        let printed = match self.json {
            true => output::json(&sums.iter().map(json).collect()),
            false => output::line(&text(&sums)),
        };
        remote.end()?;
        Ok(printed?)
    }
}

fn shown(sum: &Sum) -> String {
    match sum.path.as_slice() {
        b"" => ".".to_owned(),
        path => printable(path),
    }
}

fn json(sum: &Sum) -> Value {
    json!({
        "path": shown(sum),
        "bytes": sum.usage.bytes,
        "files": sum.usage.files,
        "directories": sum.usage.directories,
        "unknown": sum.usage.unknown,
    })
}

fn text(sums: &[Sum]) -> String {
    let mut table = Table::new(">bytes | >files | path");
    for sum in sums {
        let more = if sum.usage.unknown > 0 { "+" } else { "" };
        table.row([
            format!("{}{more}", sum.usage.bytes),
            sum.usage.files.to_string(),
            shown(sum),
        ]);
    }
    table.render()
}
