//! Pages whose parts between `<!-- NAME -->` and `<!-- end -->` are made by a study.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fairwind_result::Machine;
use jiff::Zoned;

use crate::cache::write_whole;
use crate::filter::Filter;
use crate::{Engines, Error};

const END: &str = "<!-- end -->";
/// Largest size of a figure of a page, bytes.
const FIGURE_AT_MOST: usize = 150_000;

/// A part of a page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name in the page.
    pub name: String,
    /// Its content, ending with a newline.
    pub markdown: String,
    /// Its table as comma-separated values, if it is one.
    pub csv: Option<String>,
}

impl Section {
    /// A part without a table.
    pub fn text(name: impl Into<String>, markdown: impl Into<String>) -> Section {
        Section {
            name: name.into(),
            markdown: markdown.into(),
            csv: None,
        }
    }
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its file.
    pub file: String,
    /// Its content.
    pub svg: String,
}

impl Figure {
    /// What shows it on the page of its plan.
    pub fn link(&self, plan: &str, title: &str) -> String {
        format!("![{title}]({}/{})\n", figures_of(plan), self.file)
    }
}

/// The folder of a plan's figures, beside its page.
pub fn figures_of(plan: &str) -> String {
    format!("figures/{plan}")
}

/// Replaces the parts of the page.
///
/// # Errors
/// If the page cannot be read or written, or lacks one of the parts.
pub fn fill(page: &Path, sections: &[Section]) -> Result<(), Error> {
    let mut text = fs::read_to_string(page).map_err(Error::at(page))?;
    for section in sections {
        let missing = || {
            Error::input(format!(
                "{}: no part <!-- {} -->\n  help: name the page of the plan",
                page.display(),
                section.name
            ))
        };
        let range = range(&text, &section.name).ok_or_else(missing)?;
        text.replace_range(range, &section.markdown);
    }
    write_whole(page, &text)
}

/// What a page has between the marks of this part.
pub fn part<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    range(page, name).map(|range| &page[range])
}

fn range(page: &str, name: &str) -> Option<std::ops::Range<usize>> {
    let begin = format!("<!-- {name} -->\n");
    let from = page.find(&begin)? + begin.len();
    let length = page[from..].find(END)?;
    Some(from..from + length)
}

/// Writes the figures into a folder.
///
/// # Errors
/// If one cannot be written, or is too large for a page.
pub fn write_figures(folder: &Path, figures: &[Figure]) -> Result<(), Error> {
    for figure in figures {
        let size = figure.svg.len();
        if size > FIGURE_AT_MOST {
            let most = format!("a figure of a page has at most {FIGURE_AT_MOST}");
            return Err(Error::work(format!(
                "{}: {size} bytes, {most}",
                figure.file
            )));
        }
        write_whole(&folder.join(&figure.file), &figure.svg)?;
    }
    Ok(())
}

/// The file with the runs behind the tables of a page, in the folder `data` beside it.
fn runs_file(page: &Path, engines: Engines) -> PathBuf {
    let folder = page.parent().unwrap_or(Path::new(""));
    let name = page.file_stem().unwrap_or_default().to_string_lossy();
    folder.join(format!("data/{name}-{}.csv", engines.word()))
}

/// Whether [`write_runs`] has written for this page before.
pub fn has_runs(page: &Path, engines: Engines) -> bool {
    runs_file(page, engines).exists()
}

/// Reads what [`write_runs`] has written.
///
/// # Errors
/// If there is no such file.
pub fn read_runs(page: &Path, engines: Engines) -> Result<String, Error> {
    let file = runs_file(page, engines);
    fs::read_to_string(&file).map_err(Error::at(&file))
}

/// Writes the runs behind the tables of a page, with where they come from: those of an earlier series, too, if some
/// are from there. What this command makes again is not among them any more.
///
/// # Errors
/// If the file cannot be written.
pub fn write_runs(
    page: &Path,
    engines: Engines,
    runs: &str,
    command: &str,
    earlier: &str,
) -> Result<(), Error> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let machine = Machine::here();
    let head = format!(
        "# commit {}, {}, {} cores of an {}, {}, {command}\n",
        commit(folder).unwrap_or_else(|| "unknown".to_owned()),
        Zoned::now().strftime("%Y-%m-%d"),
        machine.cores,
        machine.cpu,
        kernel(&machine)
    );
    let heads = earlier
        .lines()
        .filter(|line| line.starts_with('#') && !makes_all(command, line));
    let heads: String = heads.map(|line| format!("{line}\n")).collect();
    write_whole(&runs_file(page, engines), &(head + &heads + runs))
}

/// Whether a command makes all runs of the command at the end of an earlier head.
fn makes_all(command: &str, head: &str) -> bool {
    let parts = |text: &str| -> (String, Vec<Filter>) {
        let mut parts = text.split(" --only ");
        let program = parts.next().unwrap_or_default().to_owned();
        (program, parts.map(Filter::from).collect())
    };
    let (program, filters) = parts(command);
    let (earlier, others) = parts(head);
    let program = format!(", {program}");
    let all = earlier.strip_suffix(" --kept").unwrap_or(&earlier);
    let is_of_it = earlier.ends_with(&program) || all.ends_with(&program);
    is_of_it && Filter::take_all_of(&filters, &others)
}

/// The commit of the clone that the folder belongs to; none outside of one.
fn commit(folder: &Path) -> Option<String> {
    let folder = if folder == Path::new("") {
        Path::new(".")
    } else {
        folder
    };
    let asked = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .current_dir(folder)
        .stderr(Stdio::null())
        .output();
    let said = asked.ok().filter(|output| output.status.success())?.stdout;
    Some(String::from_utf8_lossy(&said).trim().to_owned())
}

/// When and on what the tables were made.
pub fn made(name: &str) -> Section {
    let machine = Machine::here();
    let text = format!(
        "Run on {} on {} cores of an {} with {}.\n",
        Zoned::now().strftime("%Y-%m-%d"),
        machine.cores,
        machine.cpu,
        kernel(&machine)
    );
    Section::text(name, text)
}

/// The kernel's name and release, without what the builder of the kernel added.
pub fn kernel(machine: &Machine) -> String {
    let release = machine.system.trim_start_matches("linux ");
    let release = release.split('-').next().unwrap_or(release);
    format!("Linux {release}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Title\n\n<!-- run -->\nold\n<!-- end -->\n\n<!-- table -->\n<!-- end -->\n";

    #[test]
    fn runs_say_where_they_come_from_once() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::create_dir(folder.path().join("data")).unwrap();
        let write = |command: &str, earlier: &str| {
            write_runs(&page, Engines::Sim, "a,b\n", command, earlier).unwrap();
            read_runs(&page, Engines::Sim).unwrap()
        };
        let commands = |text: &str| -> Vec<String> {
            let heads = text.lines().filter(|line| line.starts_with('#'));
            heads
                .map(|line| line.split_once("bench").unwrap().1.to_owned())
                .collect()
        };
        let all = write("bench x", "");
        let part = write("bench x --only a=1 --only b=2", &all);
        let other = write("bench x --only a=3", &part);
        assert_eq!(
            commands(&other),
            [" x --only a=3", " x --only a=1 --only b=2", " x"]
        );
        let again = write("bench x --only a=1,3", &other);
        assert_eq!(commands(&again), [" x --only a=1,3", " x"]);
        assert_eq!(commands(&write("bench x", &again)), [" x"]);
        assert_eq!(commands(&write("bench y", &again)).len(), 3);
        assert!(again.ends_with("\na,b\n"), "{again}");
        // What is kept need not be all.
        let kept = write("bench x --kept", &again);
        assert_eq!(commands(&kept), [" x --kept", " x --only a=1,3", " x"]);
        assert_eq!(commands(&write("bench x", &kept)), [" x"]);
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, PAGE).unwrap();
        let sections = [
            Section::text("table", "| a |\n"),
            Section::text("run", "new\n"),
        ];
        fill(&page, &sections).unwrap();
        let filled = fs::read_to_string(&page).unwrap();
        assert_eq!(
            filled,
            "# Title\n\n<!-- run -->\nnew\n<!-- end -->\n\n<!-- table -->\n| a |\n<!-- end -->\n"
        );
        assert_eq!(part(&filled, "run"), Some("new\n"));
    }

    #[test]
    fn a_page_without_the_part_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(&page, PAGE).unwrap();
        let sections = [Section::text("run", "new\n"), Section::text("other", "x\n")];
        let error = fill(&page, &sections).unwrap_err().to_string();
        assert!(error.contains("no part <!-- other -->"), "{error}");
        assert_eq!(fs::read_to_string(&page).unwrap(), PAGE);
    }
}
