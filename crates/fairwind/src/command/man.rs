//! `fairwind man`: manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;

use crate::failure::Failure;
use crate::output;

/// Write a manual page for each command into a folder
#[derive(Args)]
#[command(after_help = "\
Example:
  fairwind man ~/.local/share/man/man1 && man fairwind-sim-run")]
pub(crate) struct Man {
    /// Folder for the pages, which is made if necessary
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let failed = Failure::at(&self.dir);
        fs::create_dir_all(&self.dir).map_err(failed)?;
        let mut command = super::Cli::command().disable_help_subcommand(true);
        command.build();
        write_pages(command, &self.dir).map_err(failed)?;
        Ok(output::line(&self.dir.display().to_string())?)
    }
}

/// Writes the pages of a command and of all its subcommands.
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

/// Splits the text that `--help` shows after the options into sections. A line that is not indented and ends
/// with a colon is the heading of the lines that follow; lines before the first heading have none.
pub(super) fn sections(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections = vec![("", Vec::new())];
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_suffix(':') {
            Some(heading) if !line.starts_with(' ') => sections.push((heading, Vec::new())),
            _ => sections.last_mut().expect("there is one").1.push(line),
        }
    }
    sections.retain(|(_, lines)| !lines.is_empty());
    sections
}

/// Writes the sections line by line, as in the help.
fn write_sections(text: &str, page: &mut impl Write) -> io::Result<()> {
    for (heading, lines) in sections(text) {
        let heading = match heading {
            "" => "NOTES".to_owned(),
            "Example" => "EXAMPLES".to_owned(),
            heading => heading.to_uppercase(),
        };
        writeln!(page, ".SH {}\n.nf", escaped(&heading))?;
        for line in lines {
            writeln!(page, "{}", escaped(line.strip_prefix("  ").unwrap_or(line)))?;
        }
        writeln!(page, ".fi")?;
    }
    Ok(())
}

/// Escapes a line for roff.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    if line.starts_with(['.', '\'']) {
        return format!("\\&{line}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_line_by_line() {
        let mut page = Vec::new();
        let text = "Takes minutes.\nExamples:\n  fairwind demo\n  fairwind sim run x.toml \\\n      --out y\nWith --host:\n  ...\n";
        write_sections(text, &mut page).unwrap();
        assert_eq!(
            String::from_utf8(page).unwrap(),
            ".SH NOTES\n.nf\nTakes minutes.\n.fi\n\
             .SH EXAMPLES\n.nf\nfairwind demo\nfairwind sim run x.toml \\e\n    \\-\\-out y\n.fi\n\
             .SH WITH \\-\\-HOST\n.nf\n\\&...\n.fi\n"
        );
    }
}
