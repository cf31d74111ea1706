//! `fairwind cc` against the running kernel, under names and in a BPF file system of the test's own.
//!
//! Needs root. What is loaded disappears with the file system, however a test ends.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{io, process, ptr, thread};

use fairwind_cc::kernel::check_requirements;
use fairwind_testing::{permitted, root};
use serde_json::Value;
use tempfile::TempDir;

use crate::everybody::Everybody;
use crate::turn::turn;

#[test]
fn controls_are_loaded_shown_set_and_unloaded() {
    with_bench("a", |bench| {
        bench.done(&["load", "sfsack", "--set", "tau=50ms"]);
        let shown = bench.json(&["show", "sfsack"]);
        assert_eq!(shown["parameters"][0]["value"], 50_000);
        assert_eq!(shown["parameters"][0]["default"], 100_000);
        assert_eq!(shown["loaded"]["this_build"], true);
        assert_eq!(shown["loaded"]["users"], 0);

        assert_eq!(
            bench.done(&["set", "sfsack", "tau=20ms"]),
            "tau = 20000 us\n"
        );
        let name = bench.kernel_name("sfsack");
        let listed = bench.json(&["list"]);
        let sfsack = named(&listed, "sfsack");
        assert_eq!(sfsack["loaded"]["name"], name.as_str());
        assert_eq!(named(&listed, "reno")["loaded"], Value::Null);
        let others = listed["others"].as_array().unwrap();
        assert!(others.iter().any(|other| other == "reno"), "{listed}");

        // By the name in the kernel as well.
        let said = bench.done(&["unload", &name]);
        assert_eq!(said, format!("{name}: unloaded\n"));
        assert_eq!(bench.json(&["show", "sfsack"])["loaded"], Value::Null);
    });
}

#[test]
fn destinations_are_advised_and_shown() {
    with_bench("f", |bench| {
        let path = [
            "advise",
            "192.0.2.0/24",
            "--rate",
            "800Mbit/s",
            "--rtt",
            "100ms",
        ];
        let lasting = [&path[..], &["--for", "10min"]].concat();
        let (code, said) = bench.refused(&lasting);
        assert_eq!(code, Some(1));
        assert!(said.contains("fairwind cc load cubic"), "{said}");

        bench.done(&["load", "cubic"]);
        bench.done(&lasting);
        let shown = bench.json(&["advise"]);
        assert_eq!(shown[0]["destination"], "192.0.2.0/24");
        assert_eq!(shown[0]["rate_mbps"], 800.0);
        assert_eq!(shown[0]["rtt_ms"], 100.0);
        let seconds = shown[0]["holds_for_s"].as_u64().unwrap();
        assert!((500..600).contains(&seconds), "{seconds} s");
        assert!(bench.done(&["advise"]).contains("800.0"));

        bench.done(&["advise", "192.0.2.0/24", "--withdraw"]);
        assert_eq!(bench.json(&["advise"]), Value::Array(Vec::new()));
        let (code, _) = bench.refused(&["advise", "192.0.2.0/24", "--withdraw"]);
        assert_eq!(code, Some(1));
        for wrong in [
            &path[..],
            &["advise", "192.0.2.0/24"],
            &["advise", "192.0.2.0/33", "--withdraw"],
        ] {
            assert_eq!(bench.refused(wrong).0, Some(2), "{wrong:?}");
        }
        bench.done(&["unload", "cubic"]);
    });
}

#[test]
fn the_environment_names_the_folder_of_the_pins() {
    with_bench("g", |bench| {
        bench.done(&["load", "sfsack"]);
        let unloaded = |variables: &[(&str, PathBuf)]| {
            let mut command = Command::new(&bench.command);
            command.args(["cc", "unload", "sfsack", "--prefix", &bench.prefix]);
            let output = command.envs(variables.iter().cloned()).output().unwrap();
            output.status.success()
        };
        let pins = bench.folder.path().join("fairwind");
        assert!(!unloaded(&[]));
        assert!(unloaded(&[("FAIRWIND_PINS", pins)]));
    });
}

#[test]
fn all_are_loaded_in_less_than_a_second() {
    with_bench("b", |bench| {
        // The least of five: other tests only add to it.
        let loads = (0..5).map(|turn| {
            if turn > 0 {
                bench.done(&["unload", "--all"]);
            }
            let begun = Instant::now();
            bench.done(&["load", "--all"]);
            begun.elapsed()
        });
        let took = loads.min().unwrap();
        assert!(took < Duration::from_secs(1), "{took:?}");

        let listed = bench.json(&["list"]);
        for name in ["cubic", "reno", "sfsack"] {
            assert_eq!(named(&listed, name)["loaded"]["users"], 0);
        }
        assert_eq!(named(&listed, "nocc")["loaded"], Value::Null);
        // Loading again is no failure: there is nothing left to do.
        assert!(bench.done(&["load", "--all"]).contains("is loaded already"));
        bench.done(&["unload", "--all"]);
        assert_eq!(named(&bench.json(&["list"]), "reno")["loaded"], Value::Null);
    });
}

#[test]
fn what_cannot_be_done_is_told_with_what_would_help() {
    with_bench("c", |bench| {
        let (code, said) = bench.refused(&["load", "nocc"]);
        assert_eq!(code, Some(2));
        assert!(
            said.contains("attack") && said.contains("--allow-nocc"),
            "{said}"
        );

        let (code, said) = bench.refused(&["load", "reno", "sfsack", "reno"]);
        assert_eq!(code, Some(1));
        assert!(said.contains("fairwind cc load reno --replace"), "{said}");
        bench.done(&["unload", "reno", "sfsack"]);

        bench.done(&["load", "reno", "sfsack"]);
        let (code, said) = bench.refused(&["load", "reno"]);
        assert_eq!(code, Some(1));
        assert!(said.contains("fairwind cc load reno --replace"), "{said}");
        bench.done(&["load", "reno", "--replace"]);

        let (code, said) = bench.refused(&["set", "sfsack", "tau=1us"]);
        assert_eq!(code, Some(2));
        assert!(said.contains("1000 us to 10000000 us"), "{said}");
        let (code, said) = bench.refused(&["set", "sfsack", "tau=soon"]);
        assert_eq!(code, Some(2));
        assert!(said.contains("a time such as 50ms"), "{said}");
        let (code, said) = bench.refused(&["set", "cubic", "beta=0.7"]);
        assert_eq!(code, Some(1));
        assert!(said.contains("is not loaded"), "{said}");
        let (code, said) = bench.refused(&["load", "westwood"]);
        assert_eq!(code, Some(2));
        let known = fairwind_cc::native::all();
        let known = Vec::from_iter(known.iter().map(|control| control.name())).join(", ");
        assert!(said.contains(&known), "{said}");

        let (code, said) = bench.refused(&["unload", "no.such"]);
        assert_eq!(code, Some(2));
        assert!(said.contains("1 to 15 letters, digits or `_`"), "{said}");

        // A failure does not keep the others from being unloaded.
        let (code, said) = bench.refused(&["unload", "cubic", "reno"]);
        assert_eq!(code, Some(1));
        assert!(said.contains("is not loaded"), "{said}");
        assert_eq!(named(&bench.json(&["list"]), "reno")["loaded"], Value::Null);
    });
}

#[test]
fn without_privileges_it_says_which_are_missing() {
    with_bench("d", |_| {
        let everybody = Everybody::new();
        let mut command = everybody.command();
        let output = command.args(["cc", "load", "reno"]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said.contains("CAP_BPF") && said.contains("CAP_NET_ADMIN"),
            "{said}"
        );
        // Everybody may list what can be loaded.
        let mut command = everybody.command();
        let output = command.args(["cc", "list", "--json"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
    });
}

fn named(listed: &Value, name: &str) -> Value {
    let controls = listed["controls"].as_array().unwrap();
    controls.iter().find(|c| c["name"] == name).unwrap().clone()
}

/// The command, with names and pins of the test's own.
struct Bench {
    prefix: String,
    folder: TempDir,
    command: PathBuf,
}

impl Bench {
    fn kernel_name(&self, control: &str) -> String {
        format!("{}{control}", self.prefix)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.command);
        command.arg("cc").args(arguments);
        command.arg("--prefix").arg(&self.prefix);
        command
            .arg("--pins")
            .arg(self.folder.path().join("fairwind"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--json"]].concat())).unwrap()
    }

    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.run(arguments);
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }
}

/// Runs on a thread with its own BPF file system, which the commands it starts see, too.
fn with_bench(test: &'static str, run: impl FnOnce(&Bench) + Send + 'static) {
    if !permitted(root()) || !permitted(check_requirements()) {
        return;
    }
    let _turn = turn();
    let outcome = thread::spawn(move || {
        let bench = Bench {
            prefix: format!("ft{test}{:x}_", process::id() % 0x1000),
            folder: tempfile::tempdir().unwrap(),
            command: PathBuf::from(env!("CARGO_BIN_EXE_fairwind")),
        };
        mount_bpf(&bench);
        run(&bench);
    })
    .join();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// The file system disappears with the thread: nobody else is in its mount namespace.
fn mount_bpf(bench: &Bench) {
    let folder = bench.folder.path().to_str().unwrap();
    let path = std::ffi::CString::new(folder).unwrap();
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: changes the mount namespace of this thread only; the strings outlive the calls.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS));
        let (root, bpf, none) = (c"/".as_ptr(), c"bpf".as_ptr(), ptr::null());
        check(libc::mount(none, root, none, private, ptr::null()));
        check(libc::mount(bpf, path.as_ptr(), bpf, 0, ptr::null()));
    }
}

fn check(outcome: libc::c_int) {
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
}
