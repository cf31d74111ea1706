//! The index of all tables and figures of the papers, `experiments/papers.toml`: what each found, what comes
//! out here, and which plan makes it. The tables of `docs/measurements/papers.md` are generated from it.

use std::fs;
use std::path::Path;

use fairwind_scenario::diagnostic::{Diagnostic, Span, nearest};
use fairwind_scenario::file::decode::{self, Fields, Findings};
use fairwind_scenario::file::value::{Node, Table, Value};

use crate::plan::{decoded, texts};
use crate::{Engines, Error, Filter};

/// The name of the file.
pub const FILE: &str = "papers.toml";

/// All papers.
#[derive(Clone, Debug)]
pub struct Index {
    /// In the order of the file.
    pub papers: Vec<Paper>,
}

/// A paper.
#[derive(Clone, Debug)]
pub struct Paper {
    /// With what the names of its rows begin.
    pub name: String,
    /// Its title in headings.
    pub title: String,
    /// The numbers of all its tables.
    pub tables: Vec<String>,
    /// The numbers of all its figures.
    pub figures: Vec<String>,
    /// Its tables and figures.
    pub rows: Vec<Row>,
}

/// A table or a figure, or several of them.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name: `enable:table-3`.
    pub id: String,
    /// The numbers of these tables of the paper.
    pub tables: Vec<String>,
    /// The numbers of these figures of the paper.
    pub figures: Vec<String>,
    /// What it shows, with its number.
    pub what: String,
    /// What the paper found; empty if it has no numbers.
    pub found: String,
    /// What came out here; empty if nothing did.
    pub ours: String,
    /// How and why ours differs, or why there is none; empty if it does not differ.
    pub differ: String,
    /// Whether it is made.
    pub state: State,
    /// What makes it.
    pub making: Option<Making>,
    /// A link to the page that shows it; empty if there is none.
    pub page: String,
}

/// Whether a table or figure is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The table, or a drawing.
    Made,
    /// The numbers of a figure that is not drawn.
    Numbers,
    /// Neither.
    NotMade,
    /// The system that it measures is still to be built.
    ToBeBuilt,
    /// There is nothing to make: a drawing of a set-up, a list of settings.
    Nothing,
}

impl State {
    const WORDS: &'static [(&'static str, State)] = &[
        ("made", State::Made),
        ("numbers only", State::Numbers),
        ("not made", State::NotMade),
        ("to be built", State::ToBeBuilt),
        ("nothing to make", State::Nothing),
    ];

    /// Its words.
    pub fn words(self) -> &'static str {
        let found = State::WORDS.iter().find(|(_, state)| *state == self);
        found.expect("all have words").0
    }

    /// Whether a plan makes it.
    pub fn is_made(self) -> bool {
        matches!(self, State::Made | State::Numbers)
    }
}

/// How a table or figure is made.
#[derive(Clone, Debug)]
pub struct Making {
    /// By which plan.
    pub plan: String,
    /// In which engines, at least one; the first unless another is asked for.
    pub engines: Vec<Engines>,
    /// Of which runs.
    pub only: Vec<Filter>,
    /// In which parts of the plan's page.
    pub sections: Vec<String>,
    /// In which plots of a run's result.
    pub plots: Vec<String>,
}

impl Index {
    /// Reads the index in the folder of experiments.
    ///
    /// # Errors
    /// If it is not there or invalid; the diagnostic lists every problem with its line and its correction.
    pub fn read(experiments: &Path) -> Result<Index, Error> {
        let file = experiments.join(FILE);
        let text = fs::read_to_string(&file).map_err(|error| {
            Error::input(format!(
                "{}: {error}\n  help: run this in a clone of fairwind, or name its folder of experiments \
                 with --experiments DIR",
                file.display()
            ))
        })?;
        Ok(Index::parse(&text, &file.display().to_string())?)
    }

    /// Reads a text. Messages call it `name`.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn parse(text: &str, name: &str) -> Result<Index, Diagnostic> {
        let papers = decoded(text, name, papers)?;
        Ok(Index { papers })
    }

    /// All rows, each with its paper.
    pub fn rows(&self) -> impl Iterator<Item = (&Paper, &Row)> {
        let papers = self.papers.iter();
        papers.flat_map(|paper| paper.rows.iter().map(move |row| (paper, row)))
    }

    /// The row of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(&self, id: &str) -> Result<(&Paper, &Row), Error> {
        let found = self.rows().find(|(_, row)| row.id == id);
        found.ok_or_else(|| {
            let ids = self.rows().map(|(_, row)| row.id.as_str());
            let help = match nearest(id, ids) {
                Some(meant) => format!("did you mean {meant}?"),
                None => "`fairwind reproduce` without a name lists them all".to_owned(),
            };
            Error::input(format!("no table or figure is called {id}\n  help: {help}"))
        })
    }
}

impl Row {
    /// Its state, and what makes it, or why nothing does.
    pub fn status(&self) -> String {
        let words = self.state.words();
        match &self.making {
            Some(making) => {
                let engines: Vec<&str> =
                    making.engines.iter().map(|engine| engine.word()).collect();
                format!("{words}, by {} ({})", making.plan, engines.join(", "))
            }
            None if self.differ.is_empty() || self.state == State::Nothing => words.to_owned(),
            None => format!("{words}: {}", self.differ),
        }
    }

    /// Whether ours is as the paper's.
    pub fn verdict(&self) -> String {
        match self.differ.as_str() {
            "" => "agrees".to_owned(),
            why => format!("differs: {why}"),
        }
    }

    /// The commands that make it.
    fn commands(&self) -> String {
        let Some(making) = &self.making else {
            return "-".to_owned();
        };
        let commands = making
            .engines
            .iter()
            .enumerate()
            .map(|(at, engine)| match at {
                0 => format!("`fairwind reproduce {}`", self.id),
                _ => format!("`--engine {}`", engine.word()),
            });
        commands.collect::<Vec<_>>().join(", ")
    }
}

impl Paper {
    /// The table of its page.
    pub fn markdown(&self) -> String {
        let mut table = crate::table::Table::new(
            "| paper | the paper found | ours | state | command | we differ | page |",
        );
        let or_dash = |text: &str| match text {
            "" => "-".to_owned(),
            text => text.to_owned(),
        };
        for row in &self.rows {
            table.row(&[
                row.what.clone(),
                or_dash(&row.found),
                or_dash(&row.ours),
                row.state.words().to_owned(),
                row.commands(),
                or_dash(&row.differ),
                or_dash(&row.page),
            ]);
        }
        table.markdown()
    }
}

fn papers(table: &Table, findings: &mut Findings) -> Option<Vec<Paper>> {
    let mut fields = Fields::new("index", table, Span::default(), findings);
    let papers = fields.node("paper");
    fields.finish(());
    let Some(papers) = papers else {
        findings.add(
            Span::default(),
            "an index without papers",
            "add a [[paper]] table",
        );
        return None;
    };
    let items = decode::list(papers, findings, "[[paper]]")?;
    // Every paper is read, also after one with an error.
    let papers: Vec<Option<Paper>> = items.iter().map(|item| paper(item, findings)).collect();
    papers.into_iter().collect()
}

fn paper(node: &Node, findings: &mut Findings) -> Option<Paper> {
    let table = decode::table(node, findings, "[[paper]]")?;
    let mut fields = Fields::new("paper", table, node.span, findings);
    let name = fields.required("name", "\"enable\"", decode::text);
    let title = fields.required("title", "\"…\"", decode::text);
    let tables = fields.optional("tables", numbers);
    let figures = fields.optional("figures", numbers);
    let rows = fields.node("row");
    fields.finish(())?;
    let rows = match rows {
        Some(rows) => decode::list(rows, findings, "[[paper.row]]")?,
        None => &[],
    };
    let rows: Vec<Option<Row>> = rows.iter().map(|item| row(item, &name, findings)).collect();
    Some(Paper {
        title,
        tables: tables.unwrap_or_default(),
        figures: figures.unwrap_or_default(),
        rows: rows.into_iter().collect::<Option<_>>()?,
        name,
    })
}

fn row(node: &Node, paper: &str, findings: &mut Findings) -> Option<Row> {
    let table = decode::table(node, findings, "[[paper.row]]")?;
    let mut fields = Fields::new("row", table, node.span, findings);
    let id = fields.required("id", "\"table-3\"", decode::text);
    let tables = fields.optional("tables", numbers);
    let figures = fields.optional("figures", numbers);
    let what = fields.required("what", "\"Table 3: …\"", decode::text);
    let found = fields.optional("found", decode::text);
    let ours = fields.optional("ours", decode::text);
    let differ = fields.optional("differ", decode::text);
    let state = |node: &Node, findings: &mut Findings| {
        decode::choice(State::WORDS)(node, findings).map(Some)
    };
    let state = fields.required("state", "\"made\"", state);
    let page = fields.optional("page", decode::text);
    let making = making(&mut fields);
    let complete = fields.finish(());
    let state = state?;
    if state.is_made() != making.is_some() {
        findings.add(
            node.span,
            format!("a row whose state is \"{}\"", state.words()),
            match making {
                Some(_) => "leave out `plan`, or write state = \"made\"",
                None => "add plan, engines and sections",
            },
        );
    }
    complete?;
    Some(Row {
        id: format!("{paper}:{}", id),
        tables: tables.unwrap_or_default(),
        figures: figures.unwrap_or_default(),
        what,
        found: found.unwrap_or_default(),
        ours: ours.unwrap_or_default(),
        differ: differ.unwrap_or_default(),
        state,
        making,
        page: page.unwrap_or_default(),
    })
}

fn making(fields: &mut Fields<'_, '_>) -> Option<Making> {
    let plan = fields.optional("plan", decode::text);
    let engines = fields.optional("engines", |node, findings| {
        let items = decode::list(node, findings, "[\"sim\"]")?;
        let engine = decode::choice(Engines::WORDS);
        let engines = items.iter().map(|item| engine(item, findings));
        engines.collect::<Option<Vec<_>>>()
    });
    let mut texts = |name| fields.optional(name, texts).unwrap_or_default();
    let (only, sections, plots) = (texts("only"), texts("sections"), texts("plots"));
    Some(Making {
        plan: plan?,
        engines: engines.filter(|engines| !engines.is_empty())?,
        only: only.iter().map(|text| Filter::parse(text)).collect(),
        sections,
        plots,
    })
}

/// Numbers of tables or figures, with ranges: `["2.1", "4.1 to 4.24"]`.
fn numbers(node: &Node, findings: &mut Findings) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for item in decode::list(node, findings, "[\"1 to 28\"]")? {
        let text = match item.value {
            Value::Integer(number) => number.to_string(),
            _ => decode::text(item, findings)?,
        };
        match expanded(&text) {
            Some(range) => numbers.extend(range),
            None => {
                let help = "write a number or a range: \"3\", \"4.1 to 4.24\"";
                findings.add(item.span, format!("\"{text}\" is no number"), help);
            }
        }
    }
    Some(numbers)
}

/// The numbers of a range; none if the text is no number and no range.
fn expanded(text: &str) -> Option<Vec<String>> {
    let (first, last) = text.split_once(" to ").unwrap_or((text, text));
    let parts = |number: &str| -> Option<(String, u32)> {
        match number.rsplit_once('.') {
            Some((chapter, number)) => Some((format!("{chapter}."), number.parse().ok()?)),
            None => Some((String::new(), number.parse().ok()?)),
        }
    };
    let ((chapter, first), (same, last)) = (parts(first)?, parts(last)?);
    let range = first..=last;
    (chapter == same && !range.is_empty())
        .then(|| range.map(|number| format!("{chapter}{number}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: &str = "[[paper]]\nname = \"p\"\ntitle = \"Paper\"\ntables = [\"1 to 2\"]\n";

    fn wrong(text: &str) -> String {
        Index::parse(text, "papers.toml").unwrap_err().to_string()
    }

    #[test]
    fn ranges_stand_for_their_numbers() {
        assert_eq!(expanded("3").unwrap(), ["3"]);
        assert_eq!(expanded("4.9 to 4.11").unwrap(), ["4.9", "4.10", "4.11"]);
        assert_eq!(expanded("4.1 to 5.1"), None);
        assert_eq!(expanded("2 to 1"), None);
        assert_eq!(expanded("one"), None);
    }

    #[test]
    fn a_row_says_how_it_is_made_or_that_it_is_not() {
        let rows = "[[paper.row]]\nid = \"table-1\"\nwhat = \"Table 1\"\nstate = \"made\"\n\
                    plan = \"dccs\"\nengines = [\"sim\", \"lab\"]\n\
                    [[paper.row]]\nid = \"table-2\"\nwhat = \"Table 2\"\nstate = \"not made\"\n\
                    differ = \"no series\"\n";
        let index = Index::parse(&format!("{PAPER}{rows}"), "papers.toml").unwrap();
        let status: Vec<String> = index.rows().map(|(_, row)| row.status()).collect();
        assert_eq!(status, ["made, by dccs (sim, lab)", "not made: no series"]);
        let (_, row) = index.find("p:table-1").unwrap();
        assert_eq!(
            row.commands(),
            "`fairwind reproduce p:table-1`, `--engine lab`"
        );
        let error = index.find("p:table-11").unwrap_err().to_string();
        assert!(error.contains("did you mean p:table-1?"), "{error}");
    }

    #[test]
    fn a_wrong_row_is_shown_with_its_line_and_what_would_be_right() {
        let row = "[[paper.row]]\nid = \"table-1\"\nwhat = \"Table 1\"\nstate = \"mad\"\n";
        let message = wrong(&format!("{PAPER}{row}"));
        assert!(
            message.starts_with("papers.toml:8:9: \"mad\" is not known here"),
            "{message}"
        );
        assert!(message.contains("did you mean `made`?"), "{message}");
        let message = wrong(&format!("{PAPER}{}", row.replace("mad", "made")));
        assert!(
            message.contains("a row whose state is \"made\""),
            "{message}"
        );
        assert!(
            message.contains("help: add plan, engines and sections"),
            "{message}"
        );
        assert!(wrong("[[paper]]\nname = \"p\"\n").contains("paper without `title`"));
    }
}
