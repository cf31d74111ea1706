//! The page of a paper: what is between `<!-- NAME -->` and `<!-- end -->` is made by the program of its
//! experiments.

use std::fs;
use std::path::Path;
use std::process::Command;

use fairwind_experiment::result::Machine;

use crate::Error;

/// A part of the page.
pub struct Section {
    /// Its name in the page.
    pub name: &'static str,
    /// What stands there, ending with a line end.
    pub markdown: String,
}

/// Puts the parts into the page, or prints them where there is none.
pub fn publish(page: Option<&Path>, sections: &[Section]) -> Result<(), Error> {
    if let Some(page) = page {
        return fill(page, sections);
    }
    for section in sections {
        println!("<!-- {} -->\n{}", section.name, section.markdown);
    }
    Ok(())
}

/// Replaces the parts of the page.
fn fill(page: &Path, sections: &[Section]) -> Result<(), Error> {
    let mut text = fs::read_to_string(page)?;
    for section in sections {
        let begin = format!("<!-- {} -->\n", section.name);
        let missing = || format!("{}: no {}", page.display(), begin.trim_end());
        let from = text.find(&begin).ok_or_else(missing)? + begin.len();
        let length = text[from..].find("<!-- end -->").ok_or_else(missing)?;
        text.replace_range(from..from + length, &section.markdown);
    }
    Ok(fs::write(page, text)?)
}

/// When, of what and on what the tables were made.
pub fn made(name: &'static str) -> Section {
    let output = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    let machine = Machine::here();
    Section {
        name,
        markdown: format!(
            "Run on {} at commit {}, on {} cores of an {} with {}.\n",
            output("date", &["+%Y-%m-%d"]),
            output("git", &["rev-parse", "--short", "HEAD"]),
            machine.cores,
            machine.cpu,
            kernel(&machine)
        ),
    }
}

/// The kernel's name and release, without what the builder of the kernel added.
fn kernel(machine: &Machine) -> String {
    let release = machine.system.trim_start_matches("linux ");
    let release = release.split('-').next().unwrap_or(release);
    format!("Linux {release}")
}
