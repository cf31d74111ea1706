//! The plan of a study: `experiments/NAME/plan.toml`.
//!
//! ```toml
//! title   = "…"                # what the study shows
//! study   = "web100-dummynet"  # who knows what the parameters mean
//! page    = "docs/…/page.md"   # the page that shows it, from the folder above `experiments`
//! engines = ["sim", "lab"]     # what can run it; the first does unless another is asked for
//!
//! [common]                     # parameters of all runs that do not give their own
//! engine = ["a", "b"]
//!
//! [[run]]                      # one run for each combination of values
//! experiment = ["figure-4.1", "figure-4.2"]
//! set        = ["duration=10s"]    # what replaces values of the experiment file
//! suffix     = "-short"            # behind the name of the result
//!
//! [[table]]                    # a table of the page, if the study takes them from the plan
//! section = "figures 4.1 and 4.2"
//! kind    = "single"
//! rows    = [{ run = "figure-4.1-short", cells = ["4.1", "7 to 10"] }]
//!
//! [[figure]]                   # a figure of the page: a plot of a run in both engines
//! section = "figures"
//! caption = "Throughput"
//! run     = "figure-4.1-short"
//! stack   = "linux"
//! plot    = "throughput.svg"
//! file    = "figure-4.1.svg"
//!
//! [quick]                      # what `--quick` changes
//! seeds = 1
//! only  = ["figure-4.1"]
//! scale = 0.01
//!
//! [data]                       # what else the study needs: values of the paper, constants
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use fairwind_scenario::diagnostic::{Diagnostic, Span, nearest, suggestion};
use fairwind_scenario::file::decode::{self, Fields, Findings};
use fairwind_scenario::file::value::{Node, Table, Value};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::form::{filters, list, texts};
use crate::{Engines, Error, Filter, Study};

/// The name of the file.
pub const FILE: &str = "plan.toml";

/// A plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name: that of its folder.
    pub name: String,
    /// Its folder, which also holds its experiment files.
    pub folder: PathBuf,
    /// What the study shows.
    pub title: String,
    /// Who knows what the parameters mean.
    pub study: Study,
    /// The page that shows it, from the folder above the experiments.
    pub page: Option<String>,
    /// What can run it, at least one; the first does unless another is asked for.
    pub engines: Vec<Engines>,
    /// All runs.
    pub runs: Vec<Run>,
    /// Tables of the page.
    pub tables: Vec<TablePlan>,
    /// Figures of the page.
    pub figures: Vec<FigurePlan>,
    /// What a quick look runs.
    pub quick: Quick,
    /// The whole text.
    text: String,
}

/// A run: what the parameters are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Names and values, in the order of the plan.
    pub parameters: Vec<(String, String)>,
    /// What replaces values of the experiment file, as `--set` does.
    pub set: Vec<String>,
    /// Behind the name of the experiment in that of the result.
    pub suffix: String,
}

impl Run {
    /// The value of a parameter; empty if the plan gives none.
    pub fn get(&self, parameter: &str) -> &str {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(name, _)| name == parameter);
        found.map_or("", |(_, value)| value)
    }

    /// The experiment with its suffix: the name of the result.
    pub fn name(&self) -> String {
        format!("{}{}", self.get(EXPERIMENT), self.suffix)
    }
}

/// The parameter that names an experiment file.
pub const EXPERIMENT: &str = "experiment";

/// A parameter of a study.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
}

impl Parameter {
    /// A parameter with this name and these values.
    pub const fn new(name: &'static str, values: Values) -> Parameter {
        Parameter { name, values }
    }
}

/// The values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// One of these.
    Words(&'static [&'static str]),
    /// An experiment file beside the plan, without `.toml`.
    Experiment,
    /// Any text; the study knows which make sense.
    Text,
    /// A whole number, both bounds included.
    Whole(u64, u64),
}

/// A table of the page.
#[derive(Clone, Debug)]
pub struct TablePlan {
    /// Its part of the page.
    pub section: String,
    /// What it is a table of.
    pub kind: String,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// The [name](Run::name) of the run that it is about.
    pub run: String,
    /// What the plan says there, mostly in the words of a paper.
    pub cells: Vec<String>,
}

/// A figure of the page: a plot of a run in both engines.
#[derive(Clone, Debug)]
pub struct FigurePlan {
    /// Its part of the page.
    pub section: String,
    /// What it shows.
    pub caption: String,
    /// The [name](Run::name) of the run, or of a comparison that the study makes.
    pub run: String,
    /// The simulator's stack in it, as in an experiment file.
    pub stack: String,
    /// The plot's file.
    pub plot: String,
    /// Its file beside the page.
    pub file: String,
}

/// What a quick look runs.
#[derive(Clone, Debug, Default)]
pub struct Quick {
    /// How many seeds of each experiment; all if none.
    pub seeds: Option<usize>,
    /// Which runs.
    pub only: Vec<Filter>,
    /// The scale of transfers; whole if none.
    pub scale: Option<f64>,
}

/// The names of all plans in the folder of experiments.
///
/// # Errors
/// If the folder cannot be read.
pub fn names(experiments: &Path) -> Result<Vec<String>, Error> {
    let entries = fs::read_dir(experiments).map_err(|error| {
        Error::input(format!(
            "{}: no folder of experiments: {error}\n  help: run this in a clone of fairwind, or name the \
             folder with --experiments DIR",
            experiments.display()
        ))
    })?;
    let mut names = Vec::new();
    for entry in entries {
        let folder = entry.map_err(Error::at(experiments))?.path();
        if let (true, Some(name)) = (folder.join(FILE).is_file(), folder.file_name()) {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// No plan has this name.
pub(crate) fn unknown(experiments: &Path, name: &str, names: &[String]) -> Error {
    let help = match nearest(name, names.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!(
            "the plans in {}: {}",
            experiments.display(),
            names.join(", ")
        ),
    };
    Error::input(format!("no plan is called {name}\n  help: {help}"))
}

impl Plan {
    /// Reads the plan of this name.
    ///
    /// # Errors
    /// If there is none, or it is invalid; the diagnostic lists every problem with its line and its
    /// correction.
    pub fn read(experiments: &Path, name: &str) -> Result<Plan, Error> {
        let names = names(experiments)?;
        if !names.iter().any(|known| known == name) {
            return Err(unknown(experiments, name, &names));
        }
        let folder = experiments.join(name);
        let file = folder.join(FILE);
        let text = fs::read_to_string(&file).map_err(Error::at(&file))?;
        Ok(Plan::parse(&text, &file.display().to_string(), &folder)?)
    }

    /// Reads a text. Messages call it `name`; experiment files are in `folder`, whose name is the plan's.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(text: &str, name: &str, folder: &Path) -> Result<Plan, Diagnostic> {
        decode::document(text, name, |table, findings| {
            plan(&table, text, folder, findings)
        })
    }

    /// What the plan gives its study besides, `[data]`.
    ///
    /// # Errors
    /// If something is missing there or has another form.
    pub fn data<T: DeserializeOwned>(&self) -> Result<T, Error> {
        #[derive(Deserialize)]
        struct Data<T> {
            data: T,
        }
        let read: Result<Data<T>, _> = toml::from_str(&self.text);
        let wrong = |error| format!("{}: {error}", self.folder.join(FILE).display());
        Ok(read.map_err(|error| Error::input(wrong(error)))?.data)
    }

    /// The experiment file of a run.
    pub(crate) fn experiment(&self, run: &Run) -> PathBuf {
        self.folder.join(format!("{}.toml", run.get(EXPERIMENT)))
    }

    /// The runs that all filters take.
    ///
    /// # Errors
    /// If a filter takes no run of the plan, or all together take none.
    pub fn select(&self, filters: &[Filter]) -> Result<Vec<Run>, Error> {
        for filter in filters {
            if !self.runs.iter().any(|run| filter.takes(run)) {
                return Err(self.takes_nothing(filter));
            }
        }
        let mut taken = self.runs.clone();
        taken.retain(|run| Filter::all_take(filters, run));
        if taken.is_empty() {
            let what = format!("no run of {} is all of that", self.name);
            return Err(Error::input(what));
        }
        Ok(taken)
    }

    fn takes_nothing(&self, filter: &Filter) -> Error {
        let parameters = self.runs.iter().flat_map(|run| &run.parameters);
        let of_filter = parameters.filter(|(name, _)| {
            let wanted = filter.parameter.as_ref();
            wanted.is_none_or(|wanted| wanted == name)
        });
        let mut values: Vec<&str> = of_filter.map(|(_, value)| value.as_str()).collect();
        values.sort_unstable();
        values.dedup();
        let help = match (&filter.parameter, values.is_empty()) {
            (Some(_), true) => {
                let known = self.study.parameters.iter().map(|parameter| parameter.name);
                format!("its parameters: {}", known.collect::<Vec<_>>().join(", "))
            }
            _ => suggestion(&filter.values[0], values),
        };
        let what = filter.parameter.iter().map(|name| format!("{name}="));
        let what = what.collect::<String>() + &filter.values.join(",");
        Error::input(format!("no run of {} is {what}\n  help: {help}", self.name))
    }
}

fn plan(table: &Table, text: &str, folder: &Path, findings: &mut Findings) -> Option<Plan> {
    let mut fields = Fields::new("plan", table, Span::default(), findings);
    let title = fields.required("title", "\"…\"", decode::text);
    let example = format!("\"{}\"", Study::WORDS[0].0);
    let study = |node: &Node, findings: &mut Findings| {
        decode::choice(Study::WORDS)(node, findings).map(Some)
    };
    let study = fields.required("study", &example, study);
    let page = fields.optional("page", decode::text);
    let engines = fields.required("engines", "[\"sim\"]", engines);
    let [runs, tables, figures] =
        ["run", "table", "figure"].map(|name| fields.items(name).unwrap_or_default());
    let common_node = fields.node("common");
    let quick = fields.or_default("quick", quick);
    // It is for the study.
    fields.node("data");
    fields.finish(());
    let study = study?;
    if runs.is_empty() {
        let what = "a plan without runs";
        findings.add(Span::default(), what, "add a [[run]] table");
    }
    let mut common = Axes::default();
    if let Some(table) = common_node.and_then(|node| decode::table(node, findings, "[common]")) {
        common = axes(table, "common", study.parameters, folder, findings);
    }
    let runs: Vec<Run> = runs
        .iter()
        .flat_map(|node| combinations(node, &common, study.parameters, folder, findings))
        .collect();
    let names: Vec<String> = runs.iter().map(Run::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let table = |node| table_plan(node, study, &names, findings);
    let tables = tables.iter().filter_map(table).collect();
    let figure = |node| figure_plan(node, study, &names, findings);
    let figures = figures.iter().filter_map(figure).collect();
    let name = folder.file_name().unwrap_or_default();
    Some(Plan {
        name: name.to_string_lossy().into_owned(),
        folder: folder.to_owned(),
        title,
        study,
        page,
        engines,
        runs,
        tables,
        figures,
        quick,
        text: text.to_owned(),
    })
}

fn engines(node: &Node, findings: &mut Findings) -> Option<Vec<Engines>> {
    let engines = list("[\"sim\", \"lab\"]", decode::choice(Engines::WORDS))(node, findings)?;
    if engines.is_empty() {
        return findings.refuse(node.span, "no engine", "write at least one: [\"sim\"]");
    }
    Some(engines)
}

/// Parameters with their values, and what else is said of runs.
#[derive(Default)]
struct Axes {
    parameters: Vec<(String, Vec<String>)>,
    set: Vec<String>,
    suffix: String,
}

/// What a table says of runs.
fn axes(
    table: &Table,
    name: &str,
    parameters: &[Parameter],
    folder: &Path,
    findings: &mut Findings,
) -> Axes {
    let mut axes = Axes::default();
    for (key, value) in &table.entries {
        let of_key = parameters.iter().find(|known| known.name == key.value);
        match (key.value.as_str(), of_key) {
            (parameter, Some(known)) => {
                let values = values(value, known.values, folder, findings);
                axes.parameters.push((parameter.to_owned(), values));
            }
            ("set", None) => axes.set = texts(value, findings).unwrap_or_default(),
            ("suffix", None) => {
                axes.suffix = decode::text(value, findings).unwrap_or_default();
            }
            (unknown, None) => {
                let known = parameters.iter().map(|parameter| parameter.name);
                findings.add(
                    key.span,
                    format!("unknown parameter `{unknown}` in {name}"),
                    suggestion(unknown, known.chain(["set", "suffix"])),
                );
            }
        }
    }
    axes
}

/// A run for each combination of values; the values of the first parameter change last, those of `common` before
/// the run's own.
fn combinations(
    node: &Node,
    common: &Axes,
    parameters: &[Parameter],
    folder: &Path,
    findings: &mut Findings,
) -> Vec<Run> {
    let Some(table) = decode::table(node, findings, "[[run]]") else {
        return Vec::new();
    };
    let own = axes(table, "run", parameters, folder, findings);
    let is_own = |name: &String| own.parameters.iter().any(|(own, _)| own == name);
    let common_ones = common.parameters.iter().filter(|(name, _)| !is_own(name));
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for (name, values) in common_ones.chain(&own.parameters) {
        let with_each = combinations.iter().flat_map(|before| {
            let values = values.iter();
            values.map(|value| [&before[..], &[(name.clone(), value.clone())]].concat())
        });
        combinations = with_each.collect();
    }
    let run = |parameters| Run {
        parameters,
        set: [&common.set[..], &own.set[..]].concat(),
        suffix: format!("{}{}", common.suffix, own.suffix),
    };
    combinations.into_iter().map(run).collect()
}

/// A value or a list of them; those that are wrong are reported and left out.
fn values(node: &Node, values: Values, folder: &Path, findings: &mut Findings) -> Vec<String> {
    let items = match &node.value {
        Value::Array(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if items.is_empty() {
        findings.add(node.span, "no value", "write at least one");
    }
    let value = |item: &Node| value(item, values, folder, findings);
    items.iter().filter_map(value).collect()
}

fn value(node: &Node, values: Values, folder: &Path, findings: &mut Findings) -> Option<String> {
    if let Values::Whole(least, greatest) = values {
        let number = decode::whole(least, greatest)(node, findings);
        return number.map(|number| number.to_string());
    }
    let text = match node.value {
        Value::Integer(number) => number.to_string(),
        _ => decode::text(node, findings)?,
    };
    match values {
        Values::Words(words) if !words.contains(&text.as_str()) => {
            let help = suggestion(&text, words.iter().copied());
            findings.refuse(node.span, format!("\"{text}\" is not known here"), help)
        }
        Values::Experiment if !folder.join(format!("{text}.toml")).is_file() => {
            let there = experiments_in(folder);
            let help = suggestion(&text, there.iter().map(String::as_str));
            let what = format!("no experiment {text}.toml beside the plan");
            findings.refuse(node.span, what, help)
        }
        _ => Some(text),
    }
}

/// One of these words.
fn word(words: &'static [&'static str]) -> impl Fn(&Node, &mut Findings) -> Option<String> {
    move |node, findings| value(node, Values::Words(words), Path::new(""), findings)
}

/// The experiment files of a folder, without `.toml`, in the order of their names.
pub fn experiments_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names
        .filter(|name| name != FILE)
        .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort();
    names
}

fn table_plan(
    node: &Node,
    study: Study,
    names: &[&str],
    findings: &mut Findings,
) -> Option<TablePlan> {
    let mut fields = Fields::of("table", node, findings, "[[table]]")?;
    let section = fields.required("section", "\"figure 4.1\"", decode::text);
    let example = format!("\"{}\"", study.tables.first().copied().unwrap_or_default());
    let kind = fields.required("kind", &example, word(study.tables));
    let run = fields.or_default("run", |node, findings| {
        Some(name_of_run(node, names, findings))
    });
    let example = "[{ cells = [\"…\"] }]";
    let row = |node: &Node, findings: &mut Findings| row(node, run.as_deref(), names, findings);
    let rows = fields.required("rows", example, list(example, row));
    fields.finish(());
    Some(TablePlan {
        section,
        kind,
        rows,
    })
}

/// A row, of the run that it or else its table names.
fn row(node: &Node, run: Option<&str>, names: &[&str], findings: &mut Findings) -> Option<Row> {
    let mut fields = Fields::of("row", node, findings, "{ run = \"…\", cells = [\"…\"] }")?;
    let own = fields.or_default("run", |node, findings| {
        Some(name_of_run(node, names, findings))
    });
    let cells = fields.required("cells", "[\"…\"]", texts);
    fields.finish(());
    let Some(run) = own.or_else(|| run.map(str::to_owned)) else {
        let help = "add run = \"…\" here or above `rows`";
        return findings.refuse(node.span, "a row of no run", help);
    };
    Some(Row { run, cells })
}

fn name_of_run(node: &Node, names: &[&str], findings: &mut Findings) -> Option<String> {
    let text = decode::text(node, findings)?;
    if names.contains(&text.as_str()) {
        return Some(text);
    }
    let help = suggestion(&text, names.iter().copied());
    findings.refuse(
        node.span,
        format!("no run of this plan is called {text}"),
        help,
    )
}

fn figure_plan(
    node: &Node,
    study: Study,
    names: &[&str],
    findings: &mut Findings,
) -> Option<FigurePlan> {
    let mut fields = Fields::of("figure", node, findings, "[[figure]]")?;
    let known = [names, study.comparisons].concat();
    let figure = FigurePlan {
        section: fields.required("section", "\"figures\"", decode::text),
        caption: fields.required("caption", "\"Throughput\"", decode::text),
        run: fields.required("run", "\"…\"", |node, findings| {
            name_of_run(node, &known, findings)
        }),
        stack: fields.required("stack", "\"linux\"", word(&["linux", "2005"])),
        plot: fields.required("plot", "\"throughput.svg\"", decode::text),
        file: fields.required("file", "\"figure.svg\"", decode::text),
    };
    fields.finish(());
    Some(figure)
}

fn quick(node: &Node, findings: &mut Findings) -> Option<Quick> {
    let mut fields = Fields::of("quick", node, findings, "{ seeds = 1 }")?;
    let quick = Quick {
        seeds: fields.optional("seeds", decode::whole(1, 1_000)),
        only: fields.or_default("only", filters),
        scale: fields.optional("scale", decode::number(0.001, 1.0)),
    };
    fields.finish(());
    Some(quick)
}

#[cfg(test)]
mod tests;
