//! The index of all tables and figures of the papers, `experiments/papers.toml`: what each found, what comes
//! out here, and which plan makes it. The tables of `docs/measurements/papers.md` are generated from it.

use std::fs;
use std::path::Path;

use fairwind_scenario::diagnostic::{Diagnostic, Span, nearest};
use fairwind_scenario::file::decode::{self, Fields, Findings};
use fairwind_scenario::file::value::{Node, Table};

use crate::form::{filters, list, texts};
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
    /// The numbers of all its tables, with ranges: `2.1`, `4.1 to 4.24`.
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
    /// A plan makes the table, or draws the figure.
    Made,
    /// Nothing makes it.
    NotMade,
    /// There is nothing to make: a drawing of a set-up, a list of settings.
    Nothing,
}

impl State {
    const WORDS: &'static [(&'static str, State)] = &[
        ("made", State::Made),
        ("not made", State::NotMade),
        ("nothing to make", State::Nothing),
    ];

    /// Its words.
    pub fn words(self) -> &'static str {
        let found = State::WORDS.iter().find(|(_, state)| *state == self);
        found.expect("all have words").0
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
        let papers = decode::document(text, name, |table, findings| papers(&table, findings))?;
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
                let engines = Engines::words(&making.engines, ", ");
                format!("{words}, by {} ({engines})", making.plan)
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
        let others = making.engines[1..].iter();
        let others = others.map(|engine| format!("`--engine {}`", engine.word()));
        let commands = std::iter::once(format!("`fairwind reproduce {}`", self.id)).chain(others);
        commands.collect::<Vec<_>>().join(", ")
    }
}

impl Paper {
    /// The table of its page.
    pub fn markdown(&self) -> String {
        let mut table = crate::table::Table::new(
            "paper | the paper found | ours | state | command | we differ | page",
        );
        for row in &self.rows {
            let (state, commands) = (row.state.words(), row.commands());
            let cells = [
                &row.what,
                &row.found,
                &row.ours,
                state,
                &commands,
                &row.differ,
                &row.page,
            ];
            table.row(cells.map(|cell| if cell.is_empty() { "-" } else { cell }));
        }
        table.markdown()
    }
}

fn papers(table: &Table, findings: &mut Findings) -> Option<Vec<Paper>> {
    let mut fields = Fields::new("index", table, Span::default(), findings);
    let papers = fields.node("paper");
    fields.finish(());
    let Some(papers) = papers else {
        let what = "an index without papers";
        return findings.refuse(Span::default(), what, "add a [[paper]] table");
    };
    let papers = decode::list(papers, findings, "[[paper]]")?.iter();
    Some(papers.filter_map(|item| paper(item, findings)).collect())
}

fn paper(node: &Node, findings: &mut Findings) -> Option<Paper> {
    let mut fields = Fields::of("paper", node, findings, "[[paper]]")?;
    let mut paper = Paper {
        name: fields.required("name", "\"enable\"", decode::text),
        title: fields.required("title", "\"…\"", decode::text),
        tables: fields.or_default("tables", texts),
        figures: fields.or_default("figures", texts),
        rows: Vec::new(),
    };
    let rows = fields.node("row");
    fields.finish(());
    if let Some(rows) = rows {
        let rows = decode::list(rows, findings, "[[paper.row]]")?.iter();
        let row = |item| row(item, &paper.name, findings);
        paper.rows = rows.filter_map(row).collect();
    }
    Some(paper)
}

fn row(node: &Node, paper: &str, findings: &mut Findings) -> Option<Row> {
    let mut fields = Fields::of("row", node, findings, "[[paper.row]]")?;
    let id = fields.required("id", "\"table-3\"", decode::text);
    let what = fields.required("what", "\"Table 3: …\"", decode::text);
    let state = |node: &Node, findings: &mut Findings| {
        decode::choice(State::WORDS)(node, findings).map(Some)
    };
    let state = fields.required("state", "\"made\"", state);
    let row = Row {
        id: format!("{paper}:{id}"),
        tables: fields.or_default("tables", texts),
        figures: fields.or_default("figures", texts),
        what,
        found: fields.or_default("found", decode::text),
        ours: fields.or_default("ours", decode::text),
        differ: fields.or_default("differ", decode::text),
        state: state.unwrap_or(State::Nothing),
        page: fields.or_default("page", decode::text),
        making: making(&mut fields),
    };
    fields.finish(());
    if (state? == State::Made) != row.making.is_some() {
        let help = match row.making {
            Some(_) => "leave out `plan`, or write state = \"made\"",
            None => "add plan, engines and sections",
        };
        let words = row.state.words();
        findings.add(node.span, format!("a row whose state is \"{words}\""), help);
    }
    Some(row)
}

fn making(fields: &mut Fields<'_, '_>) -> Option<Making> {
    let plan = fields.optional("plan", decode::text);
    let engines = list("[\"sim\"]", decode::choice(Engines::WORDS));
    let making = Making {
        engines: fields.or_default("engines", engines),
        only: fields.or_default("only", filters),
        sections: fields.or_default("sections", texts),
        plots: fields.or_default("plots", texts),
        plan: plan?,
    };
    (!making.engines.is_empty()).then_some(making)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: &str = "[[paper]]\nname = \"p\"\ntitle = \"Paper\"\ntables = [\"1 to 2\"]\n";

    fn wrong(text: &str) -> String {
        Index::parse(text, "papers.toml").unwrap_err().to_string()
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
