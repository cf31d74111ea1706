//! Generates the tables of options in `docs/reference/` from the definition of the command line.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, Command, CommandFactory};
use fairwind_testing::page::{Section, cell, check_sections, reference_pages, table};

use crate::command::Cli;

/// How a section begins that has the options of the commands named behind it.
const OPTIONS_OF: &str = "options of ";

/// An argument or option, of all the commands for which it means the same.
struct Row {
    name: String,
    is_option: bool,
    commands: Vec<String>,
    default: String,
    meaning: String,
}

#[test]
fn generated_sections_have_the_options_of_all_commands() {
    let root = built();
    let mut on_pages = BTreeSet::new();
    for page in reference_pages() {
        let generate = |section: &Section<'_>| {
            let names = section.what.strip_prefix(OPTIONS_OF)?;
            let names: Vec<&str> = names.split(", ").collect();
            Some(options(&root, &names, section))
        };
        for what in check_sections(&page, generate) {
            let names = what.trim_start_matches(OPTIONS_OF).split(", ");
            on_pages.extend(names.map(str::to_owned));
        }
    }
    let mut with_options = BTreeSet::new();
    collect(&root, &mut Vec::new(), &mut with_options);
    let left_out: Vec<&String> = with_options.difference(&on_pages).collect();
    assert!(
        left_out.is_empty(),
        "no page has the options of {left_out:?}"
    );
}

/// The whole command line, completed as for a call.
fn built() -> Command {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    root
}

/// Adds the names of all commands with options, those below others too.
fn collect(command: &Command, path: &mut Vec<String>, names: &mut BTreeSet<String>) {
    if arguments(command).any(|argument| !argument.is_positional()) {
        names.insert(path.join(" "));
    }
    for below in command
        .get_subcommands()
        .filter(|below| !below.is_hide_set())
    {
        path.push(below.get_name().to_owned());
        collect(below, path, names);
        path.pop();
    }
}

/// What its help shows, except what every command has.
fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|argument| {
        let is_everywhere = matches!(
            argument.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !is_everywhere && !argument.is_hide_set()
    })
}

/// The table of the arguments of these commands, and then of their options.
fn options(root: &Command, names: &[&str], section: &Section<'_>) -> String {
    let mut rows: Vec<Row> = Vec::new();
    for name in names {
        let command = name.split(' ').fold(root, |command, word| {
            let below = command.find_subcommand(word);
            below.unwrap_or_else(|| panic!("there is no command {name}"))
        });
        for argument in arguments(command) {
            add(row(argument, section), name, &mut rows);
        }
    }
    rows.sort_by_key(|row| row.is_option);
    let rows = rows.into_iter().map(|row| {
        let commands = match (row.commands.len() == names.len(), names.len()) {
            (_, 1) => String::new(),
            (true, _) => "all".to_owned(),
            (false, _) => row.commands.join(", "),
        };
        vec![row.name, commands, row.default, row.meaning]
    });
    let header = ["option", "commands", "default", "meaning"];
    table(&header, &rows.collect::<Vec<_>>())
}

/// Adds what another command already has to that row, anything else behind its namesakes.
fn add(row: Row, command: &str, rows: &mut Vec<Row>) {
    let is_same = |other: &Row| {
        (&other.name, &other.default, &other.meaning) == (&row.name, &row.default, &row.meaning)
    };
    let command = format!("`{command}`");
    if let Some(at) = rows.iter().position(is_same) {
        rows[at].commands.push(command);
        return;
    }
    let namesake = rows.iter().rposition(|other| other.name == row.name);
    let at = namesake.map_or(rows.len(), |namesake| namesake + 1);
    let commands = vec![command];
    rows.insert(at, Row { commands, ..row });
}

fn row(argument: &Arg, section: &Section<'_>) -> Row {
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.unwrap_or_else(|| panic!("{}: no help", argument.get_id()));
    let help = help.to_string();
    let (meaning, told) = without_default(&help);
    let mut meaning = cell(&marked(&sentences(&meaning)));
    let values = values(argument, section);
    if !values.is_empty() {
        meaning.push_str(&format!(": {}", values.join(", ")));
    }
    Row {
        name: name(argument, section),
        is_option: !argument.is_positional(),
        commands: Vec::new(),
        default: default(argument, told),
        meaning,
    }
}

/// The values that it can have; with what they mean, unless the page says that elsewhere.
fn values(argument: &Arg, section: &Section<'_>) -> Vec<String> {
    let label = argument.get_long().map(|long| format!("--{long}"));
    let is_elsewhere = label.is_some_and(|label| section.has_link(&label));
    let values = argument.get_possible_values().into_iter();
    let values = values.filter(|value| !value.is_hide_set()).map(|value| {
        let help = value.get_help().filter(|_| !is_elsewhere);
        match help {
            Some(help) => {
                let help = cell(&marked(&uncapitalised(&help.to_string())));
                format!("`{}` ({help})", value.get_name())
            }
            None => format!("`{}`", value.get_name()),
        }
    });
    values.collect()
}

fn uncapitalised(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// How it is written on the command line.
fn name(argument: &Arg, section: &Section<'_>) -> String {
    let takes_values = argument.get_action().takes_values();
    let values = argument.get_value_names().filter(|_| takes_values);
    let values: Vec<&str> = values
        .unwrap_or_default()
        .iter()
        .map(|v| v.as_str())
        .collect();
    let values = values.join(" ");
    let Some(long) = argument.get_long() else {
        return cell(&format!("`{values}`"));
    };
    let whole = format!("--{long} {values}");
    let whole = cell(&format!("`{}`", whole.trim_end()));
    let whole = section.linked(&whole, &format!("--{long}"));
    match argument.get_short() {
        Some(short) => format!("{whole}, `-{short}`"),
        None => whole,
    }
}

/// The value without the option, from its definition or as its help tells it.
fn default(argument: &Arg, told: Option<&str>) -> String {
    let values = argument.get_default_values().iter();
    let values: Vec<String> = values
        .filter(|_| argument.get_action().takes_values())
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let value = match told {
        // `127.0.0.1:2121`, as opposed to `the kernel's`.
        Some(told) if told.starts_with(|c: char| c.is_ascii_digit()) && !told.contains(' ') => {
            format!("`{told}`")
        }
        Some(told) => cell(&marked(told)),
        None if argument.is_required_set() => "required".to_owned(),
        None => values.join(" "),
    };
    match argument.get_env() {
        Some(variable) => format!("`${}`, or {value}", variable.to_string_lossy()),
        None => value,
    }
}

/// Takes `[default: …]` out of a help text.
fn without_default(help: &str) -> (String, Option<&str>) {
    let told = help
        .split_once("[default: ")
        .and_then(|(before, told)| Some((before, told.split_once(']')?)));
    match told {
        Some((before, (told, behind))) => (format!("{}{behind}", before.trim_end()), Some(told)),
        None => (help.to_owned(), None),
    }
}

/// Paragraphs in one line. The first has no full stop at its end.
fn sentences(help: &str) -> String {
    let paragraphs: Vec<&str> = help
        .split("\n\n")
        .map(|paragraph| paragraph.trim().trim_end_matches('.'))
        .collect();
    paragraphs.join(". ")
}

/// Puts options, variables and other names with an underscore into backticks.
fn marked(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part
            .split(' ')
            .map(marked_word)
            .collect::<Vec<_>>()
            .join(" "),
        _ => format!("`{part}`"),
    });
    parts.collect()
}

fn marked_word(word: &str) -> String {
    let inside = word.trim_matches(|c: char| ",;:.()".contains(c));
    let is_option = inside
        .strip_prefix("--")
        .is_some_and(|name| !name.is_empty());
    if is_option || inside.contains('_') {
        word.replacen(inside, &format!("`{inside}`"), 1)
    } else {
        word.to_owned()
    }
}

#[test]
fn a_help_text_becomes_a_cell() {
    let (meaning, told) =
        without_default("Speed, with --fast only [default: the line's]\n\nA RATE.");
    assert_eq!(told, Some("the line's"));
    assert_eq!(
        cell(&marked(&sentences(&meaning))),
        "Speed, with `--fast` only. A RATE"
    );
    assert_eq!(
        marked("of `a_b` or FAIRWIND_FTP_PASSWORD; see --user, - too"),
        "of `a_b` or `FAIRWIND_FTP_PASSWORD`; see `--user`, - too"
    );
}

#[test]
fn options_with_the_same_meaning_are_one_row() {
    let section = Section {
        what: "",
        text: "",
        page: "",
    };
    let table = options(&built(), &["get", "ls"], &section);
    let rows = |name: &str| {
        let rows = table.lines().filter(|row| row.starts_with(name));
        rows.map(|row| row.split(" | ").nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("| `--active`"), ["all"]);
    assert_eq!(rows("| `--recursive`, `-r`"), ["`get`"]);
    assert_eq!(rows("| `--json`"), ["`get`", "`ls`"]);
}

#[test]
fn every_option_that_can_be_repeated_says_so() {
    let mut waiting = vec![built()];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        let arguments = arguments(&command).filter(|argument| !argument.is_positional());
        for option in arguments.filter(|o| matches!(o.get_action(), ArgAction::Append)) {
            let help = option.get_long_help().or(option.get_help());
            let help = help.unwrap().to_string();
            let says = help.contains("repeatable") || option.get_value_delimiter().is_some();
            assert!(says, "{} {}: {help}", command.get_name(), option.get_id());
        }
    }
}
