//! `fairwind ftp`: commands for one server, typed or from standard input.
//!
//! What moves, lists or changes files is the command of the same name, given URLs in place of names: there is no second
//! way to do it. The shell knows where it is, and what could be meant.

mod bookmarks;
mod completion;
mod words;

use std::cell::RefCell;
use std::env;
use std::io::{self, IsTerminal};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::Command as Process;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser};
use fairwind_ftp::client::{
    Connection, Credentials, Kept, Options, Place, Progress, Selection, is_url, join, printable,
    without_passwords,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};

use self::bookmarks::Bookmarks;
use self::completion::Helper;
use super::Cli;
use super::transfer::{self, Reach};
use crate::failure::{Failure, without_passwords_of};
use crate::{interrupt, output};

/// Work with an FTP server by typed commands, or by commands from standard input
#[derive(Args)]
#[command(after_help = "\
Commands: open, close, cd, pwd, lcd, lpwd, ls, get, put, cat, mirror, rm, mkdir, rmdir, mv, chmod, du,
bookmark, !COMMAND, help, exit. They take the options of fairwind's commands of the same names; help says
more. Tab completes commands and names, of the server or of this host.

From standard input, the first command that fails ends the run with its exit code, unless a - stands
before the command.

Examples:
  fairwind ftp ftp://alice@ftp.example.org/runs
  fairwind ftp work
  echo 'get --recursive run7' | fairwind ftp ftp://ftp.example.org/pub")]
pub(crate) struct Ftp {
    /// URL of a directory, or the name of a bookmark
    url: Option<String>,
    #[command(flatten)]
    reach: Reach,
}

const HELP: &str = "\
open URL|BOOKMARK          go to a server
close                      leave it
cd [DIRECTORY]             change to a directory of the server; without one to that of the login
pwd, lpwd                  tell the directory there, or here
lcd DIRECTORY              change to a directory here
ls, du [NAME...]           list, sum up
get NAME... [-o LOCAL]     fetch into the directory here, or to LOCAL
put LOCAL... [-o NAME]     store in the directory there, or as NAME
cat NAME                   print a file
mirror NAME [LOCAL]        make a directory here equal to one there
mirror -R LOCAL [NAME]     make one there equal to one here
rm, mkdir, rmdir NAME...   delete, make
mv NAME... TO              rename
chmod MODE NAME...         set permissions
bookmark [add NAME [URL] | rm NAME]
!COMMAND                   run a command of this host
exit                       leave

Names may be patterns: * ? [a-z] **. All options of fairwind's commands are there: get --help
";

/// A server, and where in it the shell is.
struct Site {
    place: Place,
    credentials: Credentials,
    connection: Connection,
    /// The directory: absolute if the server tells where the login leads.
    directory: Vec<u8>,
    /// That of the login.
    home: Vec<u8>,
}

struct Shell {
    site: Rc<RefCell<Option<Site>>>,
    reach: Reach,
    bookmarks: Bookmarks,
    is_interactive: bool,
    /// The session of all commands.
    kept: Kept,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End,
}

/// Stops at signals and says nothing.
struct Quiet;

impl Progress for Quiet {
    fn stopped(&self) -> bool {
        interrupt::asked()
    }

    fn stop_signal(&self) -> Option<BorrowedFd<'_>> {
        interrupt::bell()
    }
}

impl Ftp {
    pub(crate) fn run(self) -> Result<(), Failure> {
        interrupt::catch()?;
        let mut shell = Shell {
            site: Rc::default(),
            reach: self.reach,
            bookmarks: Bookmarks::find(),
            is_interactive: io::stdin().is_terminal(),
            kept: transfer::share_session(),
        };
        if let Some(url) = &self.url {
            shell.open(url)?;
        }
        let done = match shell.is_interactive {
            true => shell.interact(),
            false => shell.read(),
        };
        shell.close();
        done
    }
}

impl Shell {
    /// Carries out the lines of standard input.
    fn read(&mut self) -> Result<(), Failure> {
        for line in io::stdin().lines() {
            let line = line?;
            let (line, goes_on) = match line.trim_start().strip_prefix('-') {
                Some(line) => (line, true),
                None => (line.as_str(), false),
            };
            match self.execute(line) {
                // Who no longer reads what is printed has not asked for less to be done.
                Ok(Next::Line) | Err(Failure::BrokenPipe) => {}
                Ok(Next::End) => break,
                Err(failure) if goes_on && !matches!(failure, Failure::Stopped(_)) => {
                    failure.report();
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Carries out what is typed.
    fn interact(&mut self) -> Result<(), Failure> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .auto_add_history(false)
            .build();
        let mut editor: Editor<Helper, FileHistory> =
            Editor::with_config(config).map_err(Failure::work)?;
        editor.set_helper(Some(Helper::new(Rc::clone(&self.site))));
        let history = state("ftp-history");
        if let Some(history) = &history {
            // There may be none yet.
            let _ = editor.load_history(history);
        }
        loop {
            match editor.readline(&self.prompt()) {
                Ok(line) => {
                    if !has_password(&line) && !line.trim().is_empty() {
                        editor
                            .add_history_entry(line.as_str())
                            .map_err(Failure::work)?;
                    }
                    match self.execute(&line) {
                        Ok(Next::Line) | Err(Failure::BrokenPipe) => {}
                        Ok(Next::End) => break,
                        Err(failure) => {
                            failure.report();
                        }
                    }
                    interrupt::forget();
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(Failure::work(error)),
            }
        }
        if let Some(history) = &history {
            // A shell without a history is one nevertheless.
            let _ = history.parent().map(std::fs::create_dir_all);
            let _ = editor.save_history(history);
        }
        Ok(())
    }

    fn prompt(&self) -> String {
        match &*self.site.borrow() {
            Some(site) => {
                let directory = printable(&site.directory);
                format!("{}:{directory}> ", site.place.host)
            }
            None => "fairwind> ".to_owned(),
        }
    }

    fn execute(&mut self, line: &str) -> Result<Next, Failure> {
        let done = self.carry_out(line.trim());
        done.map_err(|failure| failure.without_passwords_of(&words_of(line)))
    }

    fn carry_out(&mut self, line: &str) -> Result<Next, Failure> {
        if let Some(command) = line.strip_prefix('!') {
            return self.run_here(command).map(|()| Next::Line);
        }
        let words = shlex::split(line);
        let words = words.ok_or_else(|| Failure::input("a quotation mark has no other"))?;
        let Some((command, words)) = words.split_first() else {
            return Ok(Next::Line);
        };
        match (command.as_str(), words) {
            ("exit" | "quit" | "bye", []) => return Ok(Next::End),
            ("help" | "?", _) => output::line(HELP)?,
            ("open", [url]) => self.open(url)?,
            ("close", []) => self.close(),
            ("pwd", []) => output::line(&printable(&self.site()?.directory))?,
            ("lpwd", []) => {
                let here = env::current_dir()?;
                output::line(&here.display().to_string())?;
            }
            ("cd", []) => self.change("")?,
            ("cd", [directory]) => self.change(directory)?,
            ("lcd", [directory]) => {
                let path = PathBuf::from(directory);
                env::set_current_dir(&path).map_err(Failure::no_input(&path))?;
            }
            ("bookmark", words) => self.bookmark(words)?,
            ("open" | "close" | "pwd" | "lpwd" | "cd" | "lcd" | "exit" | "quit" | "bye", _) => {
                return Err(Failure::input(format!(
                    "{command}: help says how it is written"
                )));
            }
            (command, words) => self.delegate(command, words)?,
        }
        Ok(Next::Line)
    }

    fn site(&self) -> Result<std::cell::RefMut<'_, Site>, Failure> {
        let site = std::cell::RefMut::filter_map(self.site.borrow_mut(), Option::as_mut);
        site.map_err(|_| Failure::input("no server is open: open ftp://user@host/path"))
    }

    fn open(&mut self, url: &str) -> Result<(), Failure> {
        let url = match is_url(url) {
            true => url.to_owned(),
            false => self.bookmarks.get(url)?,
        };
        let place = url.parse::<Selection>()?.single()?;
        let credentials = transfer::credentials(&place)?;
        let options = Options {
            progress: Arc::new(Quiet),
            // After the server has ended an idle session.
            retries: 1,
            pause: Duration::ZERO,
            ..self.reach.session_options()
        };
        let mut connection = Connection::new(place.clone(), credentials.clone(), options);
        let home = connection.with(|session| {
            if !place.path.is_empty() {
                session.enter(&place.path)?;
            }
            session.login_directory()
        })?;
        let home = home.unwrap_or_default();
        let directory = match place.path.as_slice() {
            b"" => home.clone(),
            path if path.starts_with(b"/") => path.to_vec(),
            path => join(&home, path),
        };
        self.close();
        *self.site.borrow_mut() = Some(Site {
            place,
            credentials,
            connection,
            directory,
            home,
        });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(mut site) = self.site.borrow_mut().take() {
            site.connection.close();
        }
        self.kept.end();
    }

    fn change(&mut self, word: &str) -> Result<(), Failure> {
        let mut site = self.site()?;
        let path = match word {
            "" => site.home.clone(),
            word => site.path(word)?,
        };
        site.connection.with(|session| session.enter(&path))?;
        site.directory = path;
        Ok(())
    }

    fn bookmark(&self, words: &[String]) -> Result<(), Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => Ok(output::line(&self.bookmarks.list()?)?),
            ["add", name] => {
                let url = self.site()?.without_password();
                self.bookmarks.add(name, &url)
            }
            ["add", name, url] => self.bookmarks.add(name, url),
            ["rm", name] => self.bookmarks.remove(name),
            _ => Err(Failure::input("bookmark [add NAME [URL] | rm NAME]")),
        }
    }

    /// Has fairwind's command of this name do it.
    fn delegate(&mut self, command: &str, words: &[String]) -> Result<(), Failure> {
        let is_help = words.iter().any(|word| word == "--help" || word == "-h");
        if !self.is_interactive && command == "put" && words.iter().any(|word| word == "-") {
            return Err(Failure::input("put -: standard input has the commands"));
        }
        let mut arguments = match is_help && words::is_known(command) {
            true => vec![command.to_owned(), "--help".to_owned()],
            false => {
                let site = self.site()?;
                words::arguments(command, words, &|word| site.url(word))?
            }
        };
        for option in self.reach.arguments() {
            let name = option.split('=').next().unwrap_or_default();
            let is_given = |word: &String| word.split('=').next() == Some(name);
            if !is_help && !arguments.iter().any(is_given) {
                arguments.insert(1, option);
            }
        }
        arguments.insert(0, "fairwind".to_owned());
        if let Some(site) = &mut *self.site.borrow_mut() {
            // The command goes on with its session.
            site.connection.close();
        }
        match Cli::try_parse_from(&arguments) {
            Ok(cli) => cli.run(),
            Err(error) if !error.use_stderr() => Ok(error.print()?),
            Err(error) => {
                let text = without_passwords_of(&error.render().to_string(), &arguments);
                let text = text.trim_start_matches("error: ").trim_end().to_owned();
                Err(Failure::Input(text))
            }
        }
    }

    fn run_here(&self, command: &str) -> Result<(), Failure> {
        let status = Process::new("sh").arg("-c").arg(command).status()?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::work(format!("{command}: {status}"))),
        }
    }
}

impl Site {
    /// The URL of a name, which may be a pattern, with user and password: it is for commands of this process only.
    fn url(&self, word: &str) -> Result<String, Failure> {
        if is_url(word) {
            return Err(Failure::input(format!(
                "{}: names of the open server are wanted here; fairwind's own commands take URLs",
                match word.parse::<Selection>() {
                    Ok(selection) => selection.base().to_string(),
                    Err(error) => error.to_string(),
                }
            )));
        }
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let user = match self.credentials == Credentials::anonymous() {
            true => String::new(),
            false => {
                let (user, password) = (&self.credentials.user, &self.credentials.password);
                format!("{}:{}@", encoded(user), encoded(password))
            }
        };
        let path = words::path(&self.directory, word);
        let shown = self.place.to_string();
        let scheme = shown.split("://").next().unwrap_or_default();
        Ok(format!("{scheme}://{user}{}/{path}", self.place.server()))
    }

    /// The path of a directory by its name.
    fn path(&self, word: &str) -> Result<Vec<u8>, Failure> {
        let place = self.url(word)?.parse::<Selection>()?.single()?;
        let path = place.path.as_slice();
        let end = path.iter().rposition(|byte| *byte != b'/');
        Ok(match end {
            Some(end) => path[..=end].to_vec(),
            None => path[..path.len().min(1)].to_vec(),
        })
    }

    fn without_password(&self) -> String {
        let place = Place {
            password: None,
            ..self.place.with_path(self.directory.clone())
        };
        place.to_string()
    }
}

/// Whether a line has a URL with a password, which no file is to keep.
fn has_password(line: &str) -> bool {
    let mut words = words_of(line);
    // Words lack what a shell takes for a comment.
    words.push(line.to_owned());
    words.iter().any(|word| without_passwords(word) != *word)
}

/// The words of a line; all of it, if it has a quotation mark without another.
fn words_of(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_else(|| vec![line.to_owned()])
}

/// A file of fairwind's state, by the XDG Base Directory Specification.
fn state(name: &str) -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state").map(|base| base.join("fairwind").join(name))
}

/// The folder that a variable names, or else this one below the user's home.
fn base(variable: &str, otherwise: &str) -> Option<PathBuf> {
    let named = env::var_os(variable).map(PathBuf::from);
    let named = named.filter(|path| path.is_absolute());
    named.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(otherwise)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_behind_quotation_marks_and_options() {
        for line in [
            "open ftp://alice:pw@h/",
            "open \"ftp://alice:pw@h/\"",
            "open 'ftp://alice:p w@h/",
            "ls --proxy socks5://bob:pw@p:1080",
            "get --proxy=http://bob:pw@p x",
            "!curl -x 'http://bob:pw@p' ftp://h/",
            "ls # ftp://alice:pw@h/",
        ] {
            assert!(has_password(line), "{line}");
        }
        for line in [
            "open ftp://alice@h:21/a:b",
            "get a:b@c",
            "ls --proxy http://p:80",
        ] {
            assert!(!has_password(line), "{line}");
        }
    }
}
