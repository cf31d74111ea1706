//! Carries out a plan, or as much of it as makes one table or figure of a paper.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{Damaged, Policy, write_whole};
use crate::page::{self, Section, figures_of};
use crate::papers::{Index, Making, Paper, Row};
use crate::plan::{self, Plan};
use crate::table::Table;
use crate::{Engines, Error, Host, Made, Options, Task};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The folder of plans.
    pub experiments: PathBuf,
    /// A plan, or a table or figure of a paper: `dccs`, `enable:table-3`.
    pub what: String,
    /// The folder of results; none for `out/PLAN`.
    pub out: Option<PathBuf>,
    /// The page whose parts are made anew.
    pub page: Option<PathBuf>,
    /// Whether tables are for a terminal, where the study has such; otherwise they are Markdown.
    pub for_terminal: bool,
    /// How the plan is carried out.
    pub options: Options,
}

/// Makes what is asked for and returns what is said of it.
///
/// # Errors
/// If nothing has that name, it cannot be made as is asked, or the work fails.
pub fn reproduce(request: &Request, host: &Host<'_>) -> Result<String, Error> {
    let plans = plan::names(&request.experiments)?;
    if plans.contains(&request.what) {
        let plan = Plan::read(&request.experiments, &request.what)?;
        return of_plan(request, &plan, host);
    }
    let index = Index::read(&request.experiments);
    if !request.what.contains(':') {
        let otherwise = plan::unknown(&request.experiments, &request.what, &plans);
        return Err(match index {
            Ok(index) => no_name(&request.what, &index, otherwise),
            Err(_) => otherwise,
        });
    }
    let index = index?;
    let (paper, row) = index.find(&request.what)?;
    let Some(making) = &row.making else {
        return Err(Error::input(format!("{}: {}", row.id, row.status())));
    };
    let plan = Plan::read(&request.experiments, &making.plan)?;
    of_row(request, &plan, (paper, row, making), host)
}

/// No plan has this name. It may lack that of a paper, or be one.
fn no_name(name: &str, index: &Index, otherwise: Error) -> Error {
    let is_meant = |id: &&str| {
        let (paper, row) = id.split_once(':').unwrap_or((id, ""));
        paper == name || row == name
    };
    let ids = index.rows().map(|(_, row)| row.id.as_str());
    let meant: Vec<&str> = ids.filter(is_meant).collect();
    if meant.is_empty() {
        return otherwise;
    }
    let help = match index.papers.iter().find(|paper| paper.name == name) {
        Some(paper) => format!("{} has {}", paper.title, meant.join(", ")),
        None => format!("did you mean {}?", meant.join(" or ")),
    };
    Error::input(format!("no plan is called {name}\n  help: {help}"))
}

fn of_plan(request: &Request, plan: &Plan, host: &Host<'_>) -> Result<String, Error> {
    let engines = engines(request, &request.what, &plan.engines)?;
    let out = out(request, plan);
    let mut task = task(request, plan, engines, &out, &[], host)?;
    let is_for_page = task.is_whole_size() && (task.is_whole() || plan.study.completes_pages);
    if request.page.is_some() && !is_for_page {
        return Err(Error::input(
            "a page shows whole studies\n  help: leave out --page, or what makes the study smaller: --only, --quick, --scale",
        ));
    }
    let is_kept = request.options.policy == Policy::Nothing;
    if let Some(page) = &request.page {
        // What takes hours does not fail at its end.
        fs::read_to_string(page).map_err(Error::at(page))?;
        // What is kept need not be all.
        let is_completed = is_kept && plan.study.completes_pages && page::has_runs(page, engines);
        if is_completed || !task.is_whole() {
            task.earlier = Some(page::read_runs(page, engines)?);
        }
    }
    let mut made = (plan.study.carry_out)(&task)?;
    if is_kept && made.runs.as_ref().is_some_and(Table::is_empty) {
        return Err(task.nothing_kept());
    }
    made.remarks.push_str(&task.damaged.report());
    write(&made, plan, &out)?;
    let Some(page) = &request.page else {
        if request.for_terminal && !made.terminal.is_empty() {
            return Ok(made.terminal + &made.remarks);
        }
        let sections = made.sections.iter();
        let sections =
            sections.map(|section| format!("<!-- {} -->\n{}\n", section.name, section.markdown));
        return Ok(sections.collect::<String>() + &made.remarks);
    };
    page::fill(page, &made.sections)?;
    let beside = page.parent().unwrap_or(Path::new(""));
    let figures = beside.join(figures_of(&plan.name));
    page::write_figures(&figures, &made.figures)?;
    for (file, html) in &made.documents {
        write_whole(&figures.join(file), html)?;
    }
    if let Some(runs) = &made.runs {
        let only = request.options.only.iter();
        let only: String = only.map(|filter| format!(" --only {filter}")).collect();
        let kept = if is_kept { " --kept" } else { "" };
        let command = format!(
            "fairwind reproduce {} --engine {}{kept}{only}",
            plan.name,
            engines.word()
        );
        let earlier = task.earlier.as_deref().unwrap_or_default();
        page::write_runs(page, engines, &runs.csv(), &command, earlier)?;
    }
    Ok(format!("{}{}\n", made.remarks, page.display()))
}

fn of_row(
    request: &Request,
    plan: &Plan,
    (paper, row, making): (&Paper, &Row, &Making),
    host: &Host<'_>,
) -> Result<String, Error> {
    if request.page.is_some() {
        return Err(Error::input(format!(
            "a page shows whole studies\n  help: fairwind reproduce {} --page FILE",
            plan.name
        )));
    }
    let engines = engines(request, &row.id, &making.engines)?;
    let out = out(request, plan);
    let task = task(request, plan, engines, &out, &making.only, host)?;
    let mut made = (plan.study.carry_out)(&task)?;
    made.remarks.push_str(&task.damaged.report());
    made.sections
        .retain(|section| making.sections.contains(&section.name));
    let sections = &made.sections;
    made.figures.retain(|figure| {
        sections
            .iter()
            .any(|section| section.markdown.contains(&figure.file))
    });
    if sections.is_empty() {
        let help = match request.options.policy {
            Policy::Nothing => "without --kept it is made",
            _ => "--only leaves out what it takes",
        };
        let what = format!("no result for {} in {}", row.id, out.display());
        return Err(Error::work(format!("{what}\n  help: {help}")));
    }
    write(&made, plan, &out)?;
    let mut text = format!(
        "{} ({})\n\nthe paper found: {}\nours, recorded:  {}\nverdict:         {}\n\nmade now:\n",
        row.what,
        paper.title,
        or_nothing(&row.found),
        or_nothing(&row.ours),
        row.verdict()
    );
    for path in paths(&made, making, &out) {
        text.push_str(&format!("  {}\n", path.display()));
    }
    for section in &made.sections {
        text.push_str(&format!("\n{}", section.markdown));
        text.push_str(&as_on_page(request, &task, section));
    }
    Ok(text + &made.remarks)
}

fn or_nothing(text: &str) -> &str {
    match text {
        "" => "no number",
        text => text,
    }
}

/// What runs it: what is asked for, if it can.
fn engines(request: &Request, what: &str, known: &[Engines]) -> Result<Engines, Error> {
    let asked = request.options.engines.unwrap_or(known[0]);
    if known.contains(&asked) {
        return Ok(asked);
    }
    let (asked, known) = (asked.word(), Engines::words(known, " or "));
    Err(Error::input(format!(
        "{what} cannot run with --engine {asked}\n  help: it can with {known}"
    )))
}

fn out(request: &Request, plan: &Plan) -> PathBuf {
    let default = || Path::new("out").join(&plan.name);
    request.out.clone().unwrap_or_else(default)
}

/// The runs that are asked for, of those that the `filters` take.
fn task<'a>(
    request: &'a Request,
    plan: &'a Plan,
    engines: Engines,
    out: &'a Path,
    filters: &[crate::Filter],
    host: &'a Host<'a>,
) -> Result<Task<'a>, Error> {
    let options = &request.options;
    let mut all = filters.to_vec();
    let is_quick = options.quick && options.only.is_empty();
    all.extend_from_slice(if is_quick {
        &plan.quick.only
    } else {
        &options.only
    });
    Ok(Task {
        plan,
        runs: plan.select(&all)?,
        engines,
        out,
        options,
        host,
        earlier: None,
        damaged: Damaged::default(),
    })
}

/// Writes the tables and figures into folders of their own.
fn write(made: &Made, plan: &Plan, out: &Path) -> Result<(), Error> {
    for section in &made.sections {
        if let Some(csv) = &section.csv {
            write_whole(&table(out, section, "csv"), csv)?;
            // Their links are those of the page.
            let links = format!("]({}/", figures_of(&plan.name));
            let markdown = section.markdown.replace(&links, "](../figures/");
            write_whole(&table(out, section, "md"), &markdown)?;
        }
    }
    if let Some(runs) = &made.runs {
        write_whole(&out.join("tables/runs.csv"), &runs.csv())?;
    }
    page::write_figures(&out.join("figures"), &made.figures)
}

fn table(out: &Path, section: &Section, kind: &str) -> PathBuf {
    let name = section.name.replace(' ', "-");
    out.join("tables").join(format!("{name}.{kind}"))
}

/// The files that show the table or figure.
fn paths(made: &Made, making: &Making, out: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for section in made.sections.iter().filter(|section| section.csv.is_some()) {
        paths.extend(["md", "csv"].map(|kind| table(out, section, kind)));
    }
    let figures = made.figures.iter();
    paths.extend(figures.map(|figure| out.join("figures").join(&figure.file)));
    for result in &made.results {
        let plots = making
            .plots
            .iter()
            .map(|plot| result.join("plots").join(plot));
        paths.extend(plots.filter(|plot| plot.is_file()));
    }
    paths
}

/// How many rows of a table the page has, too.
fn as_on_page(request: &Request, task: &Task<'_>, section: &Section) -> String {
    let Some(name) = task.plan.page.as_ref() else {
        return String::new();
    };
    let repository = request.experiments.parent().unwrap_or(Path::new(""));
    let text = fs::read_to_string(repository.join(name)).unwrap_or_default();
    let Some(part) = page::part(&text, &section.name) else {
        return String::new();
    };
    let is_row = |line: &&str| line.starts_with('|');
    // The first two are heads and rule.
    let rows: Vec<&str> = section.markdown.lines().filter(is_row).skip(2).collect();
    if rows.is_empty() {
        return String::new();
    }
    let there: Vec<&str> = part.lines().filter(is_row).collect();
    // A table with a column for each engine may have more of them there.
    let is_there = |row: &&&str| there.iter().any(|other| other.starts_with(**row));
    let same = rows.iter().filter(is_there).count();
    let of_whole = if task.is_whole_size() {
        ""
    } else {
        ", which has whole runs"
    };
    format!("{same} of {} rows are as on {name}{of_whole}\n", rows.len())
}
