//! Which packages `scripts/setup` requests, given simulated answers of apt and a simulated user. That
//! these packages suffice is checked by `scripts/fresh` on real systems.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use fairwind_testing::or_skip;
use tempfile::TempDir;

/// The real programs of this machine that the simulated system has.
const REAL: [&str; 18] = [
    "awk", "bash", "cat", "cut", "dirname", "du", "env", "find", "grep", "head", "ldd", "mkdir",
    "mktemp", "rm", "sed", "sort", "tail", "tee",
];

/// A simulated system without Rust or any package.
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
        system.is_user(1000);
        Some(system)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(&format!("bin/{name}"));
        fs::write(
            &path,
            format!("#!{}\n{script}\n", self.path("bin/bash").display()),
        )
        .unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
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
    let Some(system) = System::new(candidates) else {
        return;
    };
    let output = system.set_up();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("Run as root").count(), 1, "{said}");
    let command = said.lines().find(|line| line.starts_with("  "));
    // Without package lists, candidates are unknown, so the command must fetch the lists first.
    let lists = fs::read_dir("/var/lib/apt/lists").into_iter().flatten();
    let has_lists = lists
        .flatten()
        .any(|list| list.file_name().to_string_lossy().contains("_Packages"));
    match has_lists {
        true => assert!(command.unwrap().ends_with(packages), "{said}"),
        false => assert!(
            command.unwrap().ends_with("scripts/setup --packages build"),
            "{said}"
        ),
    }
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
fn what_apt_refuses_ends_the_set_up_with_one_line() {
    let Some(system) = System::new(&[("rustc", "1.99.0"), ("cargo", "1.99.0")]) else {
        return;
    };
    system.is_user(0);
    system.program(
        "apt-get",
        "echo \"$@\" >>$HOME/asked; echo 'E: no network' >&2; exit 100",
    );
    let output = system.set_up();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("E: no network\nsetup: apt-get update failed"),
        "{said}"
    );
    assert_eq!(system.asked().lines().count(), 1);
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
