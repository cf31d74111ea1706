//! The commands in the `sh` blocks of the pages, as their readers would type them.

use std::fs;
use std::path::{Path, PathBuf};

/// A block of commands on a page.
#[derive(Debug)]
pub(crate) struct Block {
    /// Page and line, for messages.
    pub place: String,
    /// The calls of `fairwind` in it, in order.
    pub calls: Vec<Call>,
}

/// A call of `fairwind`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Call {
    /// What comes after `fairwind`.
    pub arguments: Vec<String>,
    /// Variables that are set for it.
    pub environment: Vec<(String, String)>,
    /// The file that its output is redirected to.
    pub into: Option<String>,
    /// Whether the shell runs it in the background.
    pub background: bool,
}

/// The blocks that call `fairwind`, of the README and all pages below `docs/`.
pub(crate) fn blocks() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = pages(&root.join("docs"));
    pages.insert(0, root.join("README.md"));
    let blocks = pages.iter().flat_map(|page| {
        let text = fs::read_to_string(page).unwrap();
        let name = page.strip_prefix(&root).unwrap().to_string_lossy();
        blocks_of(&name, &text)
    });
    blocks.collect()
}

/// All Markdown files below a folder, in the order of their names.
pub(crate) fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    let pages = entries.into_iter().flat_map(|path| match path.is_dir() {
        true => pages(&path),
        false => Vec::from_iter(
            path.extension()
                .is_some_and(|kind| kind == "md")
                .then_some(path),
        ),
    });
    pages.collect()
}

/// The blocks of one page.
pub(crate) fn blocks_of(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if line.trim() != "```sh" {
            continue;
        }
        let inside = lines.by_ref().map(|(_, line)| line);
        let block: Vec<&str> = inside.take_while(|line| line.trim() != "```").collect();
        let calls = calls(&block.join("\n"));
        if !calls.is_empty() {
            let place = format!("{page}:{}", at + 1);
            blocks.push(Block { place, calls });
        }
    }
    blocks
}

/// The calls of `fairwind` in a script.
pub(crate) fn calls(script: &str) -> Vec<Call> {
    let whole = script.replace("\\\n", " ");
    let lines = whole.lines().filter_map(shlex::split);
    lines.flat_map(|words| of_line(&words)).collect()
}

fn of_line(words: &[String]) -> Vec<Call> {
    let is_operator = |word: &String| matches!(word.as_str(), "|" | "&&" | "||" | "&" | ";");
    let mut calls = Vec::new();
    let mut rest = words;
    while !rest.is_empty() {
        let end = rest.iter().position(is_operator).unwrap_or(rest.len());
        let background = rest.get(end).is_some_and(|word| word == "&");
        calls.extend(call(&rest[..end], background));
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    calls
}

/// A call, after whatever may precede it: variables, `time`, `scripts/try-kernel 6.1`.
fn call(words: &[String], background: bool) -> Option<Call> {
    let at = words.iter().position(|word| word == "fairwind")?;
    let (before, behind) = (&words[..at], &words[at + 1..]);
    let passes_on = before.first().is_none_or(|first| {
        first.contains('=') || first == "time" || first.starts_with("scripts/")
    });
    if !passes_on {
        return None;
    }
    let end = behind.iter().position(|word| word == ">");
    let variables = before.iter().filter_map(|word| word.split_once('='));
    Some(Call {
        arguments: behind[..end.unwrap_or(behind.len())].to_vec(),
        environment: variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        into: end.and_then(|end| behind.get(end + 1).cloned()),
        background,
    })
}
