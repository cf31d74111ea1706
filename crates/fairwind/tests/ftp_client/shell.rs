//! `fairwind ftp`, with commands from standard input and on a terminal.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::server::LogTarget;
use fairwind_testing::wait_until;

use super::names::below;
use super::{Bench, closed, err, read};

impl Bench {
    /// What the shell does with these lines.
    pub(super) fn shell(&self, url: &str, lines: &str) -> Output {
        self.shell_to(url, lines, Stdio::piped())
    }

    /// The same with another standard output.
    fn shell_to(&self, url: &str, lines: &str, output: Stdio) -> Output {
        let mut command = self.command(&["ftp", url]);
        command
            .env("XDG_CONFIG_HOME", self.here.path().join("config"))
            .env("XDG_STATE_HOME", self.here.path().join("state"))
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::piped());
        let mut shell = command.spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        // It may have ended before the last line.
        let _ = input.write_all(lines.as_bytes());
        drop(input);
        shell.wait_with_output().unwrap()
    }

    fn fill(&self, names: &[&str]) {
        for name in names {
            let path = self.there.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }
}

/// Waits until a terminal shows this.
fn wait_for(shown: &str, output: &mut impl Read) {
    let mut said = Vec::new();
    let mut byte = [0];
    while !said.ends_with(shown.as_bytes()) {
        let count = output.read(&mut byte).unwrap();
        assert_eq!(count, 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
}

#[test]
fn on_a_terminal_names_of_the_server_are_completed_and_lines_are_kept() {
    let bench = Bench::new();
    bench.fill(&["alpha/beta gamma.h5", "alpha/other"]);
    let shell = format!(
        "{} ftp {}",
        env!("CARGO_BIN_EXE_fairwind"),
        ALICE.replace("{host}", &bench.host)
    );
    // script(1) gives it a terminal.
    let mut terminal = Command::new("timeout")
        .args(["60", "script", "-qec", &shell, "/dev/null"])
        .current_dir(bench.here.path())
        .env("TERM", "xterm")
        .env("NETRC", bench.here.path().join("netrc"))
        .env("XDG_STATE_HOME", bench.here.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (
        terminal.stdin.take().unwrap(),
        terminal.stdout.take().unwrap(),
    );
    wait_for("> ", &mut output);
    input.write_all(b"get al\tbe\t\r").unwrap();
    // What the command says, as opposed to what has been typed.
    wait_for("verified", &mut output);
    wait_for("> ", &mut output);
    input
        .write_all(b"open ftp://alice:secret@127.0.0.1:1\r")
        .unwrap();
    wait_for("Connection refused", &mut output);
    wait_for("> ", &mut output);
    input.write_all(b"exit\r").unwrap();
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(terminal.wait().unwrap().success());
    assert_eq!(read(&bench.here, "beta gamma.h5"), b"alpha/beta gamma.h5");
    let history = String::from_utf8(read(&bench.here, "state/fairwind/ftp-history")).unwrap();
    assert!(history.contains("get alpha/beta"), "{history}");
    assert!(!history.contains("secret"), "{history}");
}

const ALICE: &str = "ftp://alice:secret@{host}";

#[test]
fn a_script_moves_lists_and_changes_files() {
    let bench = Bench::new();
    bench.fill(&["runs/1/a.h5", "runs/1/b c.h5", "runs/2/x"]);
    fs::create_dir(bench.here.path().join("sub")).unwrap();
    let script = "\
# what follows is relative to runs
cd runs/1
pwd
get *.h5
cat 'b c.h5'
lcd sub
get --recursive /runs/2 -o two
cd ..
mkdir new
put two/x -o new/y
mv 1/a.h5 new
rm -r 2
cd
mirror runs back
exit
never
";
    let output = bench.shell(ALICE, script);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("/runs/1\n"), "{said}");
    assert!(said.contains("runs/1/b c.h5"), "{said}");
    assert!(!said.contains("secret") && !err(&bench.shell(ALICE, "get none")).contains("secret"));
    let there = [
        "runs/",
        "runs/1/",
        "runs/1/b c.h5",
        "runs/new/",
        "runs/new/a.h5",
        "runs/new/y",
    ];
    assert_eq!(below(bench.there.path()), there);
    assert_eq!(read(&bench.here, "a.h5"), b"runs/1/a.h5");
    assert_eq!(read(&bench.here, "sub/back/new/y"), b"runs/2/x");
}

/// The log of a server's commands, while a shell carries out these lines in so many sessions at least.
fn log_of(idle_s: u64, lines: &str, sessions: usize) -> (Output, String) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let bench = Bench::with_server(|mut config| {
        config.command_log = Some(LogTarget::File(log.path().to_owned()));
        config.limits.idle_s = idle_s;
        bind_server(config)
    });
    bench.fill(&["d/a", "d/b"]);
    let output = bench.shell(ALICE, lines);
    // The log is written behind the replies.
    wait_until("the end of the last session", || {
        let log = fs::read_to_string(log.path()).unwrap();
        let count = |what: &str| log.matches(what).count();
        let closed = count("\"event\":\"close\"");
        closed >= sessions && closed == count("\"event\":\"open\"")
    });
    (output, fs::read_to_string(log.path()).unwrap())
}

#[test]
fn all_commands_go_on_with_one_session() {
    let lines = "cd d\nls\nget a\n-rm none\nget b --no-drs\nput a -o c\nmirror . back\n";
    let (output, log) = log_of(300, lines, 1);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(log.matches("\"PASS").count(), 1, "{log}");
    assert_eq!(log.matches("\"QUIT\"").count(), 1, "{log}");
}

#[test]
fn a_session_that_the_server_has_ended_is_begun_again() {
    let (output, log) = log_of(2, "get d/a\n!sleep 3.5\nget d/b\n", 2);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(!err(&output).contains("trying again"), "{}", err(&output));
    assert!(log.matches("\"PASS").count() >= 2, "{log}");
}

#[test]
fn a_script_ends_with_the_first_failure_unless_that_is_expected() {
    let bench = Bench::new();
    bench.fill(&["a", "b"]);
    let output = bench.shell(ALICE, "-rm none\nrm a\nrm none\nrm b\n");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(below(bench.there.path()), ["b"]);
    for (line, code) in [
        ("what", 2),
        ("get", 2),
        ("get --what b", 2),
        ("cd none", 1),
        ("get 'b", 2),
    ] {
        let output = bench.shell(ALICE, line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", err(&output));
    }
    let closed = bench.shell(ALICE, "close\nls\n");
    assert_eq!(closed.status.code(), Some(2), "{}", err(&closed));
}

#[test]
fn a_script_goes_on_when_nobody_reads_what_it_prints() {
    let bench = Bench::new();
    bench.fill(&["a", "b"]);
    let output = bench.shell_to(ALICE, "pwd\nrm a\nrm none\nrm b\n", closed());
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert_eq!(below(bench.there.path()), ["b"]);
}

#[test]
fn no_message_repeats_a_password() {
    let bench = Bench::new();
    for line in [
        "ls --proxy https://bob:hidden@p:3128",
        "ls --proxy=https://bob:hidden@p:3128",
        "open 'htp://bob:hidden@h/'",
        "ftp://bob:hidden@h/",
        "!false ftp://bob:hidden@h/",
        "get ftp://bob:hidden@h/ --wrong",
    ] {
        let output = bench.shell(ALICE, line);
        assert_ne!(output.status.code(), Some(0), "{line}");
        let said = err(&output);
        assert!(!said.is_empty() && !said.contains("hidden"), "{said}");
    }
}

#[test]
fn bookmarks_lead_to_directories_and_keep_no_passwords() {
    let bench = Bench::new();
    bench.fill(&["d/x"]);
    let output = bench.shell("ftp://{host}/d", "bookmark add here\nbookmark\n");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let output = bench.shell("here", "get x\n");
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(read(&bench.here, "x"), b"d/x");
    let output = bench.shell("ftp://{host}/", "bookmark add p ftp://u:p@h/\n");
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert_eq!(bench.shell("unknown", "").status.code(), Some(2));
}
