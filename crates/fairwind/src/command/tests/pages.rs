//! Checks that the command line accepts every call on the pages and in the help texts.

#[path = "../../../tests/pages/recipes.rs"]
mod recipes;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::command::Cli;
use crate::command::man::sections;
use recipes::{Call, blocks, calls};

/// The error for a call that the command line does not accept.
fn wrong(call: &Call) -> Option<String> {
    let arguments = ["fairwind"].into_iter();
    let arguments = arguments.chain(call.arguments.iter().map(String::as_str));
    match Cli::try_parse_from(arguments) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => None,
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn every_call_on_the_pages_is_one_of_this_command() {
    let blocks = blocks();
    assert!(blocks.len() > 10, "the pages have been found");
    for block in &blocks {
        for call in &block.calls {
            let wrong = wrong(call);
            assert_eq!(wrong, None, "{}: {:?}", block.place, call.arguments);
        }
    }
}

#[test]
fn every_example_of_the_help_is_a_call_of_this_command() {
    let mut examples = 0;
    let mut waiting = vec![Cli::command()];
    while let Some(command) = waiting.pop() {
        waiting.extend(command.get_subcommands().cloned());
        let Some(help) = command.get_after_help() else {
            continue;
        };
        let help = help.to_string();
        let shown = sections(&help).into_iter();
        let shown = shown.filter(|(heading, _)| heading.starts_with("Example"));
        let lines = shown.flat_map(|(_, lines)| lines).map(str::trim);
        for line in lines.filter(|line| line.starts_with("fairwind ")) {
            // An example's explanation follows it, after two spaces.
            let typed = line.split("  ").next().unwrap_or(line);
            for call in calls(typed) {
                assert_eq!(wrong(&call), None, "{line}");
                examples += 1;
            }
        }
    }
    assert!(examples > 20, "the examples have been found");
}
