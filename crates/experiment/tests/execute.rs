//! The folder that an execution produces, complete or not at all, with a fake engine.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwind_experiment::engine::Run;
use fairwind_experiment::{Engine, EngineError, ExecuteError, ExecuteOptions, Progress, execute};
use fairwind_instruments::Instruments;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_result::{FORMAT_VERSION, FlowResult, LinkResult, Performance, RunResult, Summary};
use fairwind_scenario::Experiment;

const TEXT: &str = r#"duration = "10s"
seeds = [1, 2, 3]
[[link]]
between = ["a", "b"]
[[flow]]
from = "a"
to = "b"
congestion_control = "reno"
"#;

fn experiment() -> Experiment {
    Experiment::parse(TEXT, "x.toml", Path::new(""), &[]).unwrap()
}

/// A fake engine: the goodput of a run is its seed, and it records `samples` samples.
#[derive(Default)]
struct Pretender {
    samples: u64,
    runs: AtomicUsize,
    /// This seed cannot be run.
    unable: Option<u64>,
    /// This seed's run ends early.
    cut_short: Option<u64>,
    real_time: bool,
    /// All runs wait here for each other before they end.
    meeting: Option<Barrier>,
}

impl Engine for Pretender {
    fn name(&self) -> &'static str {
        "pretender"
    }

    fn is_real_time(&self) -> bool {
        self.real_time
    }

    fn run(
        &self,
        Run {
            experiment, seed, ..
        }: Run<'_>,
        recorder: &mut dyn Recorder,
        progress: &dyn Fn(f64) -> bool,
    ) -> Result<RunResult, EngineError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        if self.unable == Some(seed) {
            return Err(EngineError::Unable {
                message: "no such thing here".into(),
                help: "try another engine".into(),
            });
        }
        for sample in 0..self.samples {
            let time_ns = sample * 1_000_000;
            // Noise, so that it cannot be compressed.
            let noise = (sample + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            recorder.flow(
                0,
                &FlowSample {
                    time_ns,
                    connection: 0,
                    instruments: Instruments {
                        cur_cwnd: noise >> 8,
                        ..Instruments::default()
                    },
                },
            );
            recorder.link(
                0,
                &LinkSample {
                    time_ns,
                    ..LinkSample::default()
                },
            );
        }
        if recorder.failed() || !progress(0.5) {
            return Err(EngineError::Stopped);
        }
        if let Some(meeting) = &self.meeting {
            meeting.wait();
        }
        Ok(RunResult {
            format_version: FORMAT_VERSION,
            title: experiment.title().to_owned(),
            engine: self.name().to_owned(),
            seed,
            versions: BTreeMap::new(),
            accounting: experiment.accounting(),
            stack: "linux".to_owned(),
            duration_s: 10.0,
            warmup_s: 0.0,
            overrides: Vec::new(),
            incomplete: (self.cut_short == Some(seed)).then(|| "the cable came out".to_owned()),
            warnings: Vec::new(),
            flows: vec![FlowResult {
                name: "flow-1".to_owned(),
                goodput_mbps: seed as f64,
                ..FlowResult::default()
            }],
            links: vec![LinkResult {
                name: "a-b".to_owned(),
                ..LinkResult::default()
            }],
            emulator: None,
            performance: Performance::default(),
        })
    }
}

/// A fresh folder, and the result's place in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("result");
    (folder, out)
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn one_seed(out: &Path) -> ExecuteOptions {
    ExecuteOptions {
        seeds: Some(vec![7]),
        ..ExecuteOptions::new(out)
    }
}

#[test]
fn with_one_seed_the_folder_holds_the_run() {
    let (folder, out) = place();
    let engine = Pretender {
        samples: 3,
        ..Pretender::default()
    };
    let done = execute(&experiment(), &engine, &one_seed(&out), &()).unwrap();
    assert_eq!(done.dir, out);
    assert!(done.report.is_file());
    assert!(done.summary.is_none());
    assert_eq!(RunResult::read(&out).unwrap(), done.runs[0]);
    assert_eq!(
        fs::read_to_string(out.join("experiment.toml")).unwrap(),
        TEXT
    );
    assert!(out.join("flows.parquet").is_file());
    assert!(out.join("links.parquet").is_file());
    assert_eq!(names(folder.path()), ["result"]);
}

#[test]
fn with_several_seeds_each_has_a_folder_and_the_summary_stands_above() {
    let (_folder, out) = place();
    let done = execute(
        &experiment(),
        &Pretender::default(),
        &ExecuteOptions::new(&out),
        &(),
    )
    .unwrap();
    let seeds: Vec<u64> = done.runs.iter().map(|run| run.seed).collect();
    assert_eq!(seeds, [1, 2, 3]);
    for seed in seeds {
        let run = RunResult::read(&out.join(format!("seed-{seed}"))).unwrap();
        assert_eq!(run.seed, seed);
    }
    assert!(!out.join("result.json").exists());
    let summary = Summary::read(&out).unwrap();
    assert_eq!(summary.seeds, [1, 2, 3]);
    // 1, 2, 3: mean 2, deviation 1; Student's t for two degrees of freedom is 4.302653.
    let goodput = summary.flows[0].goodput_mbps.as_ref().unwrap();
    assert!((goodput.mean - 2.0).abs() < 1e-9);
    let half_width = 4.302_653 / 3f64.sqrt();
    let told = format!("{goodput:?}");
    assert!(told.contains(&format!("{half_width:.3}")[..5]), "{told}");
}

#[test]
fn seeds_run_at_the_same_time() {
    let (_folder, out) = place();
    // Three runs that wait for each other end only if all three are under way at once.
    let engine = Pretender {
        meeting: Some(Barrier::new(3)),
        ..Pretender::default()
    };
    let options = ExecuteOptions {
        jobs: Some(3),
        ..ExecuteOptions::new(&out)
    };
    assert_eq!(
        execute(&experiment(), &engine, &options, &())
            .unwrap()
            .runs
            .len(),
        3
    );
}

#[test]
fn without_series_none_are_written() {
    let (_folder, out) = place();
    let options = ExecuteOptions {
        series: false,
        ..one_seed(&out)
    };
    execute(&experiment(), &Pretender::default(), &options, &()).unwrap();
    assert!(!out.join("flows.parquet").exists());
    assert!(out.join("result.json").is_file());
}

#[test]
fn a_result_that_is_there_is_kept_unless_force_says_otherwise() {
    let (_folder, out) = place();
    let engine = Pretender::default();
    execute(&experiment(), &engine, &one_seed(&out), &()).unwrap();
    let again = ExecuteOptions {
        seeds: Some(vec![8]),
        ..ExecuteOptions::new(&out)
    };
    let error = execute(&experiment(), &engine, &again, &()).unwrap_err();
    assert!(matches!(error, ExecuteError::Exists { .. }));
    assert_eq!(
        error.to_string(),
        format!(
            "{} holds a result already\n  help: name another folder, or replace it with --force",
            out.display()
        )
    );
    assert_eq!(
        engine.runs.load(Ordering::SeqCst),
        1,
        "refused before it ran"
    );
    assert_eq!(RunResult::read(&out).unwrap().seed, 7);

    let forced = ExecuteOptions {
        force: true,
        ..again
    };
    execute(&experiment(), &engine, &forced, &()).unwrap();
    assert_eq!(RunResult::read(&out).unwrap().seed, 8);
}

#[test]
fn force_leaves_nothing_of_the_old_result() {
    let (folder, out) = place();
    let engine = Pretender::default();
    execute(&experiment(), &engine, &ExecuteOptions::new(&out), &()).unwrap();
    let forced = ExecuteOptions {
        force: true,
        ..one_seed(&out)
    };
    execute(&experiment(), &engine, &forced, &()).unwrap();
    assert!(!out.join("summary.json").exists());
    assert!(!out.join("seed-1").exists());
    assert_eq!(names(folder.path()), ["result"]);
}

#[test]
fn what_is_no_result_is_never_replaced() {
    let (_folder, out) = place();
    fs::create_dir(&out).unwrap();
    fs::write(out.join("thesis.tex"), "years of work").unwrap();
    let forced = ExecuteOptions {
        force: true,
        ..one_seed(&out)
    };
    let error = execute(&experiment(), &Pretender::default(), &forced, &()).unwrap_err();
    assert!(matches!(error, ExecuteError::InTheWay { .. }), "{error}");
    assert_eq!(names(&out), ["thesis.tex"]);
}

#[test]
fn a_result_with_something_else_beside_it_is_never_replaced() {
    let (_folder, out) = place();
    execute(&experiment(), &Pretender::default(), &one_seed(&out), &()).unwrap();
    fs::write(out.join("notes.txt"), "mine").unwrap();
    let forced = ExecuteOptions {
        force: true,
        ..one_seed(&out)
    };
    let error = execute(&experiment(), &Pretender::default(), &forced, &()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`notes.txt`, which would be deleted"),
        "{error}"
    );
    assert!(out.join("notes.txt").is_file());
}

#[test]
fn a_file_is_in_the_way_and_an_empty_folder_is_not() {
    let (_folder, out) = place();
    fs::write(&out, "a file").unwrap();
    let error = execute(&experiment(), &Pretender::default(), &one_seed(&out), &()).unwrap_err();
    assert!(matches!(error, ExecuteError::InTheWay { .. }), "{error}");
    fs::remove_file(&out).unwrap();
    fs::create_dir(&out).unwrap();
    execute(&experiment(), &Pretender::default(), &one_seed(&out), &()).unwrap();
}

#[test]
fn a_link_to_nothing_is_in_the_way() {
    let (_place, out) = place();
    std::os::unix::fs::symlink("nowhere", &out).unwrap();
    let pretender = Pretender::default();
    let error = execute(&experiment(), &pretender, &ExecuteOptions::new(&out), &());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("it is a dangling symbolic link"), "{error}");
    assert_eq!(pretender.runs.load(Ordering::SeqCst), 0);
}

#[test]
fn commands_that_replace_the_same_result_at_once_all_succeed() {
    let (_place, out) = place();
    let options = ExecuteOptions {
        force: true,
        ..one_seed(&out)
    };
    std::thread::scope(|scope| {
        let replace = || {
            for _ in 0..20 {
                execute(&experiment(), &Pretender::default(), &options, &()).unwrap();
            }
        };
        for _ in 0..4 {
            scope.spawn(replace);
        }
    });
    assert_eq!(names(out.parent().unwrap()), ["result"]);
    RunResult::read(&out).unwrap();
}

#[test]
fn folders_above_the_result_are_made() {
    let (folder, _) = place();
    let out = folder.path().join("a/b/result/");
    let done = execute(&experiment(), &Pretender::default(), &one_seed(&out), &()).unwrap();
    assert_eq!(done.dir, folder.path().join("a/b/result"));
}

/// Lets this number of calls pass, then stops the run.
struct StopAfter(AtomicUsize);

impl Progress for StopAfter {
    fn run(&self, _seed: u64, _share: f64) -> bool {
        let before = self.0.load(Ordering::SeqCst);
        self.0.store(before.saturating_sub(1), Ordering::SeqCst);
        before > 0
    }
}

#[test]
fn a_stopped_execution_leaves_nothing() {
    let (folder, out) = place();
    let options = ExecuteOptions {
        jobs: Some(1),
        ..ExecuteOptions::new(&out)
    };
    // The first run ends, the second is stopped.
    let stop = StopAfter(AtomicUsize::new(1));
    let error = execute(&experiment(), &Pretender::default(), &options, &stop).unwrap_err();
    assert!(matches!(error, ExecuteError::Stopped));
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_stopped_execution_leaves_the_old_result() {
    let (folder, out) = place();
    let engine = Pretender::default();
    execute(&experiment(), &engine, &one_seed(&out), &()).unwrap();
    let forced = ExecuteOptions {
        force: true,
        ..ExecuteOptions::new(&out)
    };
    let stop = StopAfter(AtomicUsize::new(0));
    execute(&experiment(), &engine, &forced, &stop).unwrap_err();
    assert_eq!(RunResult::read(&out).unwrap().seed, 7);
    assert_eq!(names(folder.path()), ["result"]);
}

#[test]
fn a_seed_that_cannot_be_run_ends_all_and_is_named() {
    let (folder, out) = place();
    let engine = Pretender {
        unable: Some(2),
        ..Pretender::default()
    };
    let options = ExecuteOptions {
        jobs: Some(1),
        ..ExecuteOptions::new(&out)
    };
    let error = execute(&experiment(), &engine, &options, &()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "seed 2: no such thing here\n  help: try another engine"
    );
    assert_eq!(
        engine.runs.load(Ordering::SeqCst),
        2,
        "the third is not begun"
    );
    assert!(names(folder.path()).is_empty());
}

#[test]
fn in_real_time_a_run_that_was_cut_short_is_kept_and_ends_all() {
    let (folder, out) = place();
    let engine = Pretender {
        real_time: true,
        cut_short: Some(2),
        samples: 3,
        ..Pretender::default()
    };
    let done = execute(&experiment(), &engine, &ExecuteOptions::new(&out), &()).unwrap();
    let reason = Some("seed 2: the cable came out");
    assert_eq!(done.incomplete.as_deref(), reason);
    assert_eq!(done.summary.unwrap().incomplete.as_deref(), reason);
    assert_eq!(Summary::read(&out).unwrap().seeds, [1, 2]);
    let second = RunResult::read(&out.join("seed-2")).unwrap();
    assert_eq!(second.incomplete.as_deref(), Some("the cable came out"));
    assert!(out.join("seed-2/flows.parquet").is_file());
    assert!(!out.join("seed-3").exists());
    assert_eq!(names(folder.path()), ["result"]);
}

#[test]
fn in_real_time_a_seed_that_cannot_be_run_leaves_those_before_it() {
    let (_folder, out) = place();
    let engine = Pretender {
        real_time: true,
        unable: Some(2),
        ..Pretender::default()
    };
    let done = execute(&experiment(), &engine, &ExecuteOptions::new(&out), &()).unwrap();
    let reason = "seed 2: no such thing here\n  help: try another engine";
    assert_eq!(done.incomplete.as_deref(), Some(reason));
    assert_eq!(Summary::read(&out).unwrap().seeds, [1]);
    assert!(!out.join("seed-2").exists());
}

#[test]
fn in_real_time_a_first_seed_that_cannot_be_run_leaves_nothing() {
    let (folder, out) = place();
    let engine = Pretender {
        real_time: true,
        unable: Some(1),
        ..Pretender::default()
    };
    execute(&experiment(), &engine, &ExecuteOptions::new(&out), &()).unwrap_err();
    assert!(names(folder.path()).is_empty());
}

#[test]
fn no_seed_and_a_seed_twice_are_refused() {
    let (_folder, out) = place();
    let seeds = |seeds: &[u64]| {
        let options = ExecuteOptions {
            seeds: Some(seeds.to_vec()),
            ..ExecuteOptions::new(&out)
        };
        execute(&experiment(), &Pretender::default(), &options, &()).unwrap_err()
    };
    assert!(matches!(seeds(&[]), ExecuteError::NoSeed));
    assert!(matches!(
        seeds(&[4, 4]),
        ExecuteError::SeedTwice { seed: 4 }
    ));
}

/// Starts this test program again to run one of the ignored tests below, in `folder`.
fn child(test: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            &format!("execute::{test}"),
            "--ignored",
            "--nocapture",
        ])
        .env("FAIRWIND_TEST_FOLDER", folder);
    command
}

/// The folder that the parent process gave.
fn given_folder() -> PathBuf {
    std::env::var_os("FAIRWIND_TEST_FOLDER")
        .expect("started by the test above it")
        .into()
}

/// Executes with more samples than there is room for, and checks that nothing is left behind.
fn execute_without_room(folder: &Path) {
    let engine = Pretender {
        samples: 400_000,
        ..Pretender::default()
    };
    let out = folder.join("result");
    let error = execute(&experiment(), &engine, &one_seed(&out), &()).unwrap_err();
    assert!(matches!(error, ExecuteError::Result(_)), "{error}");
    assert!(names(folder).is_empty(), "{:?}", names(folder));
}

#[test]
fn a_file_that_may_not_grow_leaves_no_half_result() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = child("child_with_small_files", folder.path());
    // SAFETY: both calls are allowed between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: 100_000,
                rlim_max: 100_000,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "run by a_file_that_may_not_grow_leaves_no_half_result"]
fn child_with_small_files() {
    execute_without_room(&given_folder());
}

#[test]
fn a_full_disk_leaves_no_half_result() {
    // Mounts a small file system, which needs root.
    if !fairwind_testing::permitted(fairwind_testing::root()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = child("child_on_a_small_disk", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

#[test]
#[ignore = "run by a_full_disk_leaves_no_half_result"]
fn child_on_a_small_disk() {
    let folder = given_folder();
    let target = std::ffi::CString::new(folder.to_str().unwrap()).unwrap();
    // SAFETY: the pointers are to strings that outlive the calls; the mount is only seen by this
    // thread and those that it starts, and ends with them.
    let mounted = unsafe {
        let root = c"/".as_ptr();
        let tmpfs = c"tmpfs".as_ptr();
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                root,
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) == 0
            && libc::mount(
                tmpfs,
                target.as_ptr(),
                tmpfs,
                0,
                c"size=256k".as_ptr().cast(),
            ) == 0
    };
    assert!(mounted, "{}", std::io::Error::last_os_error());
    execute_without_room(&folder);
}

#[test]
fn a_killed_execution_leaves_nothing_but_what_the_next_one_removes() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = child("child_that_never_ends", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("under way")));
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(!folder.path().join("result").exists());
    let left = names(folder.path());
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with(".result.unfinished-"), "{left:?}");
    let options = ExecuteOptions::new(folder.path().join("result"));
    execute(&experiment(), &Pretender::default(), &options, &()).unwrap();
    assert_eq!(names(folder.path()), ["result"]);
}

/// Reports that it runs, then waits to be killed.
struct Endless;

impl Progress for Endless {
    fn run(&self, seed: u64, _share: f64) -> bool {
        if seed == 2 {
            println!("under way");
            loop {
                std::thread::park();
            }
        }
        true
    }
}

#[test]
#[ignore = "run by a_killed_execution_leaves_nothing_but_what_the_next_one_removes"]
fn child_that_never_ends() {
    let options = ExecuteOptions {
        jobs: Some(1),
        ..ExecuteOptions::new(given_folder().join("result"))
    };
    let _ = execute(&experiment(), &Pretender::default(), &options, &Endless);
}
