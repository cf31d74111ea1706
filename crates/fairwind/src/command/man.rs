//! `fairwind man`: manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::failure::Failure;
use crate::output;

/// Write the manual pages, one a command, into a folder
#[derive(Args)]
#[command(after_help = "\
Example:
  fairwind man ~/.local/share/man/man1 && man fairwind-sim-run")]
pub struct Man {
    /// Folder for the pages; made if it is not there
    dir: PathBuf,
}

impl Man {
    pub fn run(self) -> Result<(), Failure> {
        let failed = |error| Failure::work(format!("{}: {error}", self.dir.display()));
        fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut command = super::Cli::command().disable_help_subcommand(true);
        command.build();
        write_pages(command, &self.dir).map_err(failed)?;
        output::line(&self.dir.display().to_string())?;
        Ok(())
    }
}

/// The page of the command and those of all below it.
fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    let below = command.get_subcommands().filter(|c| !c.is_hide_set());
    for command in below.cloned() {
        write_pages(command, folder)?;
    }
    let behind = command.get_after_help().map(|text| text.to_string());
    let page = Page::new(command.after_help(None::<&str>));
    let mut file = Vec::new();
    page.render(&mut file)?;
    write_sections(&behind.unwrap_or_default(), &mut file)?;
    fs::write(folder.join(page.get_filename()), file)
}

/// What `--help` has behind the options: examples line by line, as they are typed, and all else as notes.
fn write_sections(text: &str, page: &mut impl Write) -> io::Result<()> {
    let mut section = "";
    for line in text.lines().filter(|line| !line.is_empty()) {
        let (name, opening) = match line {
            "Example:" | "Examples:" => ("EXAMPLES", ".nf"),
            _ if section.is_empty() => ("NOTES", ".sp 0"),
            _ => ("", ""),
        };
        if !name.is_empty() {
            section = name;
            writeln!(page, ".SH {name}\n{opening}")?;
        }
        match section {
            _ if name == "EXAMPLES" => {}
            "EXAMPLES" => writeln!(page, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?,
            _ => writeln!(page, "{}\n.br", escaped(line))?,
        }
    }
    match section {
        "EXAMPLES" => writeln!(page, ".fi"),
        _ => Ok(()),
    }
}

/// A line that roff shows as it is.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_line_by_line() {
        let mut page = Vec::new();
        let text = "Takes minutes.\nExamples:\n  fairwind demo\n  fairwind sim run x.toml \\\n      --out y\n";
        write_sections(text, &mut page).unwrap();
        assert_eq!(
            String::from_utf8(page).unwrap(),
            ".SH NOTES\n.sp 0\nTakes minutes.\n.br\n.SH EXAMPLES\n.nf\nfairwind demo\n\
             fairwind sim run x.toml \\e\n    \\-\\-out y\n.fi\n"
        );
    }
}
