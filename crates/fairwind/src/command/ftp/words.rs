//! A typed line as the arguments of a command: names become URLs, everything else stays.

use clap::{Command, CommandFactory};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use crate::command::Cli;
use crate::failure::Failure;

/// Commands of fairwind that the shell has.
pub(super) const COMMANDS: [&str; 11] = [
    "chmod", "du", "get", "ls", "mirror", "mkdir", "mv", "put", "rm", "rmdir", "cat",
];

/// What is escaped of a directory's path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// What is escaped of a typed name, which may be a pattern.
const WORD: &AsciiSet = &PATH
    .remove(b'*')
    .remove(b'?')
    .remove(b'[')
    .remove(b']')
    .remove(b'!')
    .remove(b'^');

/// Whether the shell has this command from fairwind.
pub(super) fn is_known(command: &str) -> bool {
    COMMANDS.contains(&command)
}

/// The arguments of the command that does what a line says.
pub(super) fn arguments(
    command: &str,
    words: &[String],
    url: &dyn Fn(&str) -> Result<String, Failure>,
) -> Result<Vec<String>, Failure> {
    if !is_known(command) {
        return Err(Failure::input(format!(
            "{command}: there is no such command; help lists them"
        )));
    }
    let name = if command == "cat" { "get" } else { command };
    let root = Cli::command();
    let known = root.find_subcommand(name).expect("fairwind has it");
    let (mut options, own, names) = sorted(known, words)?;
    let missing = |what: &str| Failure::input(format!("{command}: {what} is missing"));
    let urls = |names: &[String]| -> Result<Vec<String>, Failure> {
        names.iter().map(|name| url(name)).collect()
    };
    let output = own.output.as_deref();
    if output.is_some() && !matches!(command, "get" | "put") {
        return Err(Failure::input(format!("{command}: -o is for get and put")));
    }
    let named = match (command, names.as_slice()) {
        ("ls", []) => vec![url("")?],
        ("ls", [name]) => vec![url(name)?],
        ("ls", _) => return Err(Failure::input("ls: one name or pattern is wanted")),
        ("du", []) => vec![url("")?],
        ("cat", [name]) => vec![url(name)?, "-".to_owned()],
        ("mirror", [local]) if own.reverse => vec![local.clone(), url(last(local))?],
        ("mirror", [local, name]) if own.reverse => vec![local.clone(), url(name)?],
        ("mirror", [name]) => vec![url(name)?, last(name).to_owned()],
        ("mirror", [name, local]) => vec![url(name)?, local.clone()],
        ("cat" | "mirror", _) => return Err(missing("a name")),
        (_, []) => return Err(missing("a name")),
        ("get", names) => {
            let mut words = urls(names)?;
            words.extend(output.map(str::to_owned));
            words
        }
        ("put", names) => {
            let to = match output {
                Some(name) => url(name)?,
                None => url("./")?,
            };
            let mut words = names.to_vec();
            words.push(to);
            words
        }
        ("chmod", [mode, names @ ..]) => {
            let mut words = vec![mode.clone()];
            words.extend(urls(names)?);
            words
        }
        (_, names) => urls(names)?,
    };
    let mut all = vec![name.to_owned()];
    all.append(&mut options);
    // Names may begin with a hyphen.
    all.push("--".to_owned());
    all.extend(named);
    Ok(all)
}

/// Options that the shell has beside those of the command.
#[derive(Default)]
struct Own {
    output: Option<String>,
    reverse: bool,
}

/// Sorts words into options, with their values, the shell's own, and names.
fn sorted(command: &Command, words: &[String]) -> Result<(Vec<String>, Own, Vec<String>), Failure> {
    let (mut options, mut own, mut names) = (Vec::new(), Own::default(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--" => names.extend(words.by_ref().cloned()),
            "-" => names.push(word.clone()),
            "-o" => {
                let output = words.next();
                let output = output.ok_or_else(|| Failure::input("-o: a name is missing"))?;
                own.output = Some(output.clone());
            }
            "-R" => own.reverse = true,
            option if option.starts_with('-') => {
                options.push(word.clone());
                let takes_next = option.strip_prefix("--").is_some_and(|long| {
                    let found = command
                        .get_arguments()
                        .find(|one| one.get_long() == Some(long));
                    found.is_some_and(|one| one.get_action().takes_values())
                });
                if takes_next {
                    options.extend(words.next().cloned());
                }
            }
            _ => names.push(word.clone()),
        }
    }
    Ok((options, own, names))
}

/// The last name of a path.
fn last(path: &str) -> &str {
    let trimmed = path.trim_end_matches('/');
    match trimmed.rsplit('/').next() {
        Some(name) if !name.is_empty() && !matches!(name, "." | "..") => name,
        _ => ".",
    }
}

/// The path part of the URL of a name, or pattern, in a directory: without the first slash.
pub(super) fn path(directory: &[u8], word: &str) -> String {
    let directory = percent_encode(directory, PATH).to_string();
    let word = encoded(word);
    let is_absolute = word.starts_with('/') || directory.starts_with('/');
    let above = if word.starts_with('/') {
        ""
    } else {
        &directory
    };
    let mut names: Vec<&str> = Vec::new();
    for name in above.split('/').chain(word.split('/')) {
        match name {
            "" | "." => {}
            // What is above a directory whose own path is not known cannot be told; the command refuses it.
            ".." if is_absolute || names.last().is_some_and(|name| *name != "..") => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    let mut path = names.join("/");
    if word.ends_with('/') && !path.is_empty() {
        path.push('/');
    }
    match is_absolute {
        true => format!("/{path}"),
        false => path,
    }
}

/// A typed name with everything escaped that has a meaning in URLs; `%XX` stays, so that it can stand for a character of
/// patterns.
fn encoded(word: &str) -> String {
    let mut text = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('%') {
        text.push_str(&percent_encode(&rest.as_bytes()[..at], WORD).to_string());
        let code = rest.get(at + 1..at + 3);
        let is_code = code.is_some_and(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        text.push_str(if is_code { "%" } else { "%25" });
        rest = &rest[at + 1..];
    }
    text.push_str(&percent_encode(rest.as_bytes(), WORD).to_string());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments for a line, at the server `h` in the directory `/d`.
    fn line(line: &str) -> Vec<String> {
        let words = shlex::split(line).unwrap();
        let url = |word: &str| Ok(format!("ftp://h/{}", path(b"/d", word)));
        arguments(&words[0], &words[1..], &url).unwrap()
    }

    #[test]
    fn names_become_urls_and_options_keep_their_values() {
        let expected = [
            "get",
            "--parallel",
            "4",
            "-r",
            "--",
            "ftp://h//d/a%20b",
            "ftp://h//d/c",
        ];
        assert_eq!(line("get --parallel 4 'a b' -r c"), expected);
        assert_eq!(
            line("get --parallel=4 /x -o y"),
            ["get", "--parallel=4", "--", "ftp://h//x", "y"]
        );
        assert_eq!(line("put x y"), ["put", "--", "x", "y", "ftp://h//d/"]);
        assert_eq!(line("put x -o ../y"), ["put", "--", "x", "ftp://h//y"]);
        assert_eq!(line("ls"), ["ls", "--", "ftp://h//d"]);
        assert_eq!(line("cat -- -x"), ["get", "--", "ftp://h//d/-x", "-"]);
        assert_eq!(line("chmod 640 x"), ["chmod", "--", "640", "ftp://h//d/x"]);
        assert_eq!(
            line("mirror run7/"),
            ["mirror", "--", "ftp://h//d/run7/", "run7"]
        );
        let up = ["mirror", "--delete", "--", "here/run7", "ftp://h//d/run7"];
        assert_eq!(line("mirror -R --delete here/run7"), up);
    }

    #[test]
    fn paths_are_those_of_the_directory_or_of_the_root() {
        assert_eq!(path(b"/a/b*", "../*.h5"), "/a/*.h5");
        assert_eq!(path(b"/a b", "c?"), "/a%20b/c?");
        assert_eq!(path(b"/", ""), "/");
        assert_eq!(path(b"/", "./"), "/");
        assert_eq!(path(b"", "x/"), "x/");
        assert_eq!(path(b"", ""), "");
        assert_eq!(path(b"a", "/"), "/");
        assert_eq!(path(b"/a", "100%"), "/a/100%25");
        assert_eq!(path(b"/a", "%2A#"), "/a/%2A%23");
        assert_eq!(path(b"/a", "../../.."), "/");
        assert_eq!(path(b"a", "../../../x/.."), "../..");
    }

    #[test]
    fn what_is_no_command_is_told() {
        let url = |word: &str| Ok(word.to_owned());
        for wrong in [
            &["serve"][..],
            &["get"],
            &["mv"],
            &["rm", "-o", "x", "y"],
            &["get", "-o"],
        ] {
            let words: Vec<String> = wrong[1..].iter().map(|word| (*word).to_owned()).collect();
            assert!(arguments(wrong[0], &words, &url).is_err(), "{wrong:?}");
        }
    }
}
