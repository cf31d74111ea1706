//! Which packages `scripts/setup` requests, given simulated answers of apt and a simulated user. That
//! these packages suffice is checked by `scripts/fresh` on real systems.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use fairwind_testing::{copy_program, or_skip};
use tempfile::TempDir;

/// The real programs of this machine that the simulated system has.
const REAL: [&str; 18] = [
    "awk", "bash", "cat", "cut", "dirname", "du", "env", "grep", "head", "ldd", "mkdir", "mktemp",
    "mv", "rm", "sed", "sort", "tail", "tee",
];

/// What a build needs from the system beside Rust.
const FOR_A_BUILD: [&str; 3] = ["gcc", "clang", "pkg-config"];

/// A simulated system without Rust or any program that a build needs, with package lists and all C headers.
struct System {
    folder: TempDir,
}

impl System {
    /// `candidates` are the names and versions that apt offers. `None` if this machine has a Rust that
    /// cannot be hidden.
    fn new(candidates: &[(&str, &str)]) -> Option<System> {
        let rusts = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let found = rusts.map(|entry| entry.file_name()).find(|name| {
            let name = name.to_string_lossy();
            name.starts_with("rust-")
        });
        let found = found.map(|name| format!("/usr/lib/{} cannot be hidden", name.display()));
        or_skip(found.map_or(Ok(()), Err))?;
        let system = System {
            folder: TempDir::new().unwrap(),
        };
        fs::create_dir(system.path("bin")).unwrap();
        for name in REAL {
            let folders = ["/usr/bin", "/bin"].map(Path::new);
            let program = folders.iter().map(|folder| folder.join(name));
            let program = program.into_iter().find(|program| program.exists());
            symlink(program.unwrap(), system.path(&format!("bin/{name}"))).unwrap();
        }
        let policies = candidates.iter().map(|(name, version)| {
            format!("policy:{name}) echo '{name}:'; echo '  Candidate: {version}';;\n")
        });
        let names = candidates.iter().map(|(name, _)| format!("{name}\n"));
        system.program(
            "apt-cache",
            &format!(
                "case $1:$2 in\npkgnames:*) printf '{}' | grep \"^$2\";;\n\
                 depends:proftpd-core) echo '  Depends: libmemcached11';;\n{}esac\nexit 0",
                names.collect::<String>(),
                policies.collect::<String>()
            ),
        );
        system.program("apt-get", "echo \"$@\" >>$HOME/asked");
        system.program("dpkg-query", "exit 1");
        system.has_free(99_999);
        system.program("sleep", "exit 0");
        system.program("find", "echo \"$1/found\"");
        system.is_user(1000);
        Some(system)
    }

    /// An image has no package lists.
    fn has_no_lists(&self) {
        self.program(
            "find",
            "case $1 in /var/lib/apt/*) ;; *) echo \"$1/found\";; esac",
        );
    }

    fn has(&self, programs: &[&str]) {
        for name in programs {
            self.program(name, "exit 0");
        }
    }

    /// A Rust whose cargo does what the script says.
    fn has_rust(&self, cargo: &str) {
        self.program("rustc", "echo 'rustc 1.99.0'; echo 'host: here'");
        self.program("cargo", cargo);
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(&format!("bin/{name}"));
        let text = self.path("script");
        let shell = self.path("bin/bash");
        fs::write(&text, format!("#!{}\n{script}\n", shell.display())).unwrap();
        copy_program(&text, &path);
    }

    fn is_user(&self, number: u32) {
        self.program("id", &format!("echo {number}"));
    }

    /// Sets the free space of the disk that holds all existing folders, in megabytes.
    fn has_free(&self, free: u32) {
        let answer = format!("[ -d \"$2\" ] && printf 'x\\nx 9 9 {free} 9 /\\n'");
        self.program("df", &answer);
    }

    /// Runs the script.
    fn set_up_for(&self, purpose: &str) -> Output {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        // The script adds folders that a user's PATH may lack; they contain no Rust.
        Command::new(self.path("bin/bash"))
            .arg(root.join("scripts/setup"))
            .arg(purpose)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env("HOME", self.folder.path())
            .env("CARGO_TARGET_DIR", self.path("new/target"))
            .output()
            .unwrap()
    }

    fn set_up(&self) -> Output {
        self.set_up_for("build")
    }

    /// The arguments of all calls of apt-get.
    fn asked(&self) -> String {
        fs::read_to_string(self.path("asked")).unwrap_or_default()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A user other than root is told a single command, which installs `packages`.
#[track_caller]
fn asks_once_for(candidates: &[(&str, &str)], packages: &str) {
    asks_once(candidates, "build", packages);
}

#[track_caller]
fn asks_once(candidates: &[(&str, &str)], purpose: &str, packages: &str) {
    let Some(system) = System::new(candidates) else {
        return;
    };
    let output = system.set_up_for(purpose);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("Run as root").count(), 1, "{said}");
    let command = said.lines().find(|line| line.starts_with("  ")).unwrap();
    assert!(
        command.starts_with("  apt-get update && apt-get install "),
        "{said}"
    );
    assert!(command.ends_with(packages), "{said}");
    assert_eq!(system.asked(), "");
}

#[test]
fn rust_of_the_distribution_is_taken_if_it_is_new_enough() {
    asks_once_for(&[("rustc", "1.99.0"), ("cargo", "1.99.0")], " rustc cargo");
}

#[test]
fn the_newer_rust_of_debians_browsers_stands_in_for_one_that_is_too_old() {
    let candidates = [
        ("rustc", "1.63.0+dfsg1-2"),
        ("cargo", "0.66.0+ds1-1"),
        ("rustc-web", "1.96.0+dfsg1-1~deb12u2"),
        ("cargo-web", "1.96.0+dfsg1-1~deb12u2"),
        // A virtual package, which has no version.
        ("rustup", "(none)"),
    ];
    asks_once_for(&candidates, " rustc-web cargo-web");
}

#[test]
fn formats_and_lints_come_from_where_rust_does() {
    let debian_12 = [("rustc", "1.63.0"), ("rustc-web", "1.96.0")];
    let with = " rustc-web cargo-web clang-format rustfmt-web rust-web-clippy";
    asks_once(&debian_12, "lint", with);
    let debian_13_or_later = [("rustc", "1.99.0"), ("cargo", "1.99.0")];
    let with = " rustc cargo clang-format rustfmt rust-clippy";
    asks_once(&debian_13_or_later, "lint", with);
    let with = " rustc-1.97 cargo-1.97 clang-format rustfmt-1.97 rust-1.97-clippy";
    asks_once(&[("rustc-1.97", "1.97.1")], "lint", with);
}

#[test]
fn without_package_lists_root_is_asked_to_run_the_script() {
    let Some(system) = System::new(&[]) else {
        return;
    };
    system.has_no_lists();
    let said = said(&system.set_up());
    assert_eq!(said.matches("Run as root").count(), 1, "{said}");
    assert!(said.contains("scripts/setup --packages build\n"), "{said}");
}

#[test]
fn the_newest_rust_is_taken_of_those_that_ubuntu_has_beside_each_other() {
    let candidates = [
        ("rustc", "1.75.0+dfsg0ubuntu1-0ubuntu7"),
        ("rustc-1.89", "1.89.0"),
        ("rustc-1.97", "1.97.1+dfsg~24.04"),
        ("rustc-1.100", "1.100.0"),
        ("rustup", "1.26.0-5"),
    ];
    asks_once_for(&candidates, " rustc-1.100 cargo-1.100");
}

#[test]
fn rustup_is_taken_where_the_distribution_has_no_rust_new_enough() {
    asks_once_for(&[("rustc", "1.85.0"), ("rustup", "1.27.1-3")], " rustup");
}

#[test]
fn where_nothing_has_a_rust_new_enough_the_way_on_is_told() {
    let Some(system) = System::new(&[("rustc", "1.85.0"), ("rustup", "(none)")]) else {
        return;
    };
    system.is_user(0);
    let output = system.set_up();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("this system has 1.85.0 at most"), "{said}");
    assert!(said.contains("https://sh.rustup.rs"), "{said}");
    assert!(!system.asked().contains("rust"), "{}", system.asked());
}

#[test]
fn a_user_whom_root_cannot_help_is_told_the_way_on() {
    let Some(system) = System::new(&[("rustc", "1.85.0"), ("rustup", "(none)")]) else {
        return;
    };
    system.has(&FOR_A_BUILD);
    let output = system.set_up();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("Run as root"), "{said}");
    assert!(said.contains("apt-get install curl "), "{said}");
    assert!(said.contains("https://sh.rustup.rs"), "{said}");
    assert_eq!(system.asked(), "");
}

#[test]
fn rustup_gets_a_toolchain_and_keeps_what_its_user_has_chosen() {
    let Some(system) = System::new(&[]) else {
        return;
    };
    system.has(&FOR_A_BUILD);
    for (chosen, sets_default) in [(false, true), (true, false)] {
        // Installs nothing: the script ends with the way on.
        let asks = "[ \"$*\" = default ]";
        let text = format!(
            "{asks} && exit {}; echo \"$@\" >>$HOME/rustup",
            u8::from(!chosen)
        );
        system.program("rustup", &text);
        system.set_up();
        let calls = fs::read_to_string(system.path("rustup")).unwrap();
        fs::remove_file(system.path("rustup")).unwrap();
        assert!(calls.starts_with("toolchain install stable "), "{calls}");
        assert_eq!(calls.contains("default stable"), sets_default, "{calls}");
        assert!(!calls.contains("override"), "{calls}");
    }
}

#[test]
fn servers_of_other_projects_are_fetched_and_not_installed() {
    let Some(system) = System::new(&[("vsftpd", "3.0.3"), ("proftpd-core", "1.3.8")]) else {
        return;
    };
    system.is_user(0);
    system.has(&FOR_A_BUILD);
    system.has(&["dpkg-deb"]);
    system.has_rust("exit 0");
    let output = system.set_up_for("test");
    let asked = system.asked();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    // None if this machine has both in /usr/sbin.
    let is_server = |line: &&str| line.ends_with(" vsftpd") || line.contains(" proftpd-core");
    for line in asked.lines().filter(is_server) {
        assert!(line.starts_with("download "), "{line}");
    }
    assert!(!asked.contains(" vsftpd "), "{asked}");
}

#[test]
fn rust_packages_that_cannot_be_fetched_end_the_set_up_before_a_build() {
    let Some(system) = System::new(&[]) else {
        return;
    };
    system.has(&FOR_A_BUILD);
    system.has_rust("[ $1 = --version ] || { echo 'error: no network' >&2; exit 101; }");
    let output = system.set_up();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("error: no network\nsetup: the Rust packages cannot be fetched"),
        "{said}"
    );
}

#[test]
fn what_apt_refuses_ends_the_set_up_with_one_line() {
    let Some(system) = System::new(&[("rustc", "1.99.0"), ("cargo", "1.99.0")]) else {
        return;
    };
    system.is_user(0);
    for (refused, calls) in [("update", 1), ("install", 2)] {
        let text = format!(
            "echo \"$@\" >>$HOME/asked\ncase \"$*\" in *{refused}*) echo 'E: no network' >&2; exit 100;; esac"
        );
        system.program("apt-get", &text);
        let output = system.set_up();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let end = format!("E: no network\nsetup: apt-get {refused} failed");
        assert!(said.contains(&end), "{said}");
        assert_eq!(system.asked().lines().count(), calls);
        fs::remove_file(system.path("asked")).unwrap();
    }
}

#[test]
fn a_disk_that_is_too_full_is_told_before_anything_is_done() {
    let Some(system) = System::new(&[("rustc", "1.99.0"), ("cargo", "1.99.0")]) else {
        return;
    };
    system.is_user(0);
    system.has_free(12);
    let output = system.set_up();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("12 MB are free there"), "{said}");
    assert_eq!(system.asked(), "");
}

#[test]
fn another_apt_at_work_is_waited_for() {
    let Some(system) = System::new(&[("rustc", "1.99.0"), ("cargo", "1.99.0")]) else {
        return;
    };
    system.is_user(0);
    system.program(
        "apt-get",
        "echo \"$@\" >>$HOME/asked; [ -e $HOME/tried ] && exit; : >$HOME/tried\n\
         echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)' >&2; exit 100",
    );
    let said = said(&system.set_up());
    assert!(said.contains("setup: waiting for the other apt"), "{said}");
    let asked = system.asked();
    let words: Vec<&str> = asked
        .lines()
        .map(|line| {
            line.split(' ')
                .find(|word| ["update", "install"].contains(word))
        })
        .map(Option::unwrap)
        .collect();
    assert_eq!(words, ["update", "update", "install"]);
}

#[test]
fn what_is_installed_for_two_architectures_is_installed() {
    let candidates = [
        ("rustc", "1.99.0"),
        ("cargo", "1.99.0"),
        ("vsftpd", "3.0.3-13"),
        ("proftpd-core", "1.3.8"),
    ];
    for (state, is_asked_for) in [("installed", false), ("config-files", true)] {
        let Some(system) = System::new(&candidates) else {
            return;
        };
        // As root: without package lists, the script fetches them first.
        system.is_user(0);
        // Imitates dpkg-query for formats with and without a line end, with more lines than a pipe holds:
        // a reader that leaves early is seen.
        let lines = format!(
            "case $3 in *n) printf '{state}\\n%.0s' {{1..9999}};; *) printf {state}{state};; esac"
        );
        system.program("dpkg-query", &lines);
        system.set_up_for("test");
        let asked = system.asked();
        assert!(asked.contains("install"), "{asked}");
        assert_eq!(asked.contains(" libmemcached11"), is_asked_for, "{asked}");
    }
}
