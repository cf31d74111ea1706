//! `fairwind serve --sessions` and `--kill`: the operator's view of a running server.

use std::path::Path;

use fairwind_ftp::server::SessionRow;
use fairwind_ftp::server::console;
use nix::unistd::{Gid, Group};

use crate::failure::Failure;
use crate::output;

/// Where the socket is if nothing else is said.
const CONTROL: &str = "/run/fairwind/serve.sock";

/// Lists the sessions of the server at this socket, or ends one.
///
/// # Errors
/// Fails if the server does not answer, the caller may not ask, or there is no such session.
pub(crate) fn run(control: Option<&Path>, kill: Option<u64>, json: bool) -> Result<(), Failure> {
    let control = control.unwrap_or(Path::new(CONTROL));
    if let Some(session) = kill {
        return match console::kill(control, session).map_err(Failure::work)? {
            true => Ok(()),
            false => Err(Failure::work(format!("there is no session {session}"))),
        };
    }
    let rows = console::sessions(control).map_err(Failure::work)?;
    if json {
        let text = serde_json::to_string_pretty(&rows).map_err(Failure::work)?;
        output::line(&text)?;
        return Ok(());
    }
    for line in table(&rows) {
        output::line(&line)?;
    }
    Ok(())
}

/// A table with aligned columns.
fn table(rows: &[SessionRow]) -> Vec<String> {
    let header = [
        "SESSION", "USER", "ADDRESS", "SINCE", "COMMAND", "BYTES", "RATE",
    ];
    let mut cells = vec![header.map(str::to_owned)];
    for row in rows {
        let number =
            |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        let command = row.command.as_deref().unwrap_or("-");
        cells.push([
            row.session.to_string(),
            plain(row.user.as_deref().unwrap_or("-")),
            row.address.to_string(),
            row.since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            plain(command),
            number(row.bytes),
            row.rate.map_or("-".to_owned(), |rate| format!("{rate}/s")),
        ]);
    }
    let width = |column: usize| {
        let widths = cells.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |row: &[String; 7]| {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

/// What clients named, without what could change the terminal.
fn plain(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(plain).take(60).collect()
}

/// The number of a group.
///
/// # Errors
/// Fails if there is no such group.
pub(crate) fn group(text: &str) -> Result<u32, Failure> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let found = Group::from_name(text).map_err(Failure::work)?;
    let group: Option<Gid> = found.map(|group| group.gid);
    let missing = || Failure::input(format!("--control-group {text}: there is no such group"));
    Ok(group.ok_or_else(missing)?.as_raw())
}
