//! Records the kernel's reno and cubic over all paths (or those named), each for SECONDS, replays
//! the recordings into `cc/`, and prints the table of `docs/measurements/replay.md`. With `--keep`,
//! the first ACKs of each connection are kept in a folder.
//!
//! ```text
//! cargo bench -p fairwind-replay --bench record -- SECONDS [--keep ACKS FOLDER] [PATH...]
//! ```

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use fairwind_cc::native;
use fairwind_replay::control::{Agreement, replay};
use fairwind_replay::path::{self, RecordedPath};
use fairwind_replay::recorder::Recorder;
use fairwind_replay::recording::Recording;

/// Exit codes of a failure, and of a recording with which our congestion control does not agree.
const FAILURE: u8 = 1;
const DIFFERENCE: u8 = 3;

struct Plan {
    time: Duration,
    keep: Option<(usize, PathBuf)>,
    paths: Vec<RecordedPath>,
}

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    let arguments: Vec<String> = arguments.collect();
    let Some(plan) = plan(&arguments) else {
        eprintln!("usage: record SECONDS [--keep ACKS FOLDER] [PATH...]");
        return ExitCode::from(2);
    };
    match run(&plan) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENCE),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(FAILURE)
        }
    }
}

fn plan(arguments: &[String]) -> Option<Plan> {
    let (seconds, rest) = arguments.split_first()?;
    let (keep, names) = match rest {
        [option, acks, folder, names @ ..] if option == "--keep" => {
            (Some((acks.parse().ok()?, folder.into())), names)
        }
        names => (None, names),
    };
    let mut paths = path::all();
    paths.retain(|path| names.is_empty() || names.iter().any(|name| name == path.name));
    Some(Plan {
        time: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        keep,
        paths,
    })
}

/// Returns false if a congestion control does not agree with the kernel's.
fn run(plan: &Plan) -> Result<bool, Box<dyn Error>> {
    println!(
        "| path | control | ACKs | cwnd equal | ssthresh equal | decisions equal | set by TCP | ticks |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut total = Agreement::default();
    for path in &plan.paths {
        for recorder in Recorder::ALL {
            let recording = record(path, recorder, plan.time)?;
            let control = native::find(recorder.control()).ok_or("no such control")?;
            let agreement = replay(&recording, &control.default_parameters());
            print_row(path.name, recorder.control(), &agreement);
            if let Some(difference) = agreement.first_difference {
                eprintln!("{difference:#?}");
            }
            if let Some((acks, folder)) = &plan.keep {
                keep(recording, *acks, folder)?;
            }
            total.add(&agreement);
        }
    }
    print_row("all", "", &total);
    Ok(total.first_difference.is_none())
}

fn print_row(path: &str, control: &str, agreement: &Agreement) {
    let Agreement {
        acks,
        cwnd,
        ssthresh,
        decisions,
        ..
    } = agreement;
    println!(
        "| {path} | {control} | {acks} | {cwnd} | {ssthresh} | {} of {decisions} | {} | {} |",
        agreement.decisions_equal, agreement.set_by_tcp, agreement.ticks
    );
}

fn record(
    path: &RecordedPath,
    recorder: Recorder,
    time: Duration,
) -> Result<Recording, Box<dyn Error>> {
    let (ran, connections) = recorder.record(|name| path.run(name, time))?;
    ran?;
    Ok(Recording {
        control: recorder.control().to_owned(),
        path: path.name.to_owned(),
        kernel: fairwind_kernel::release(),
        hz: fairwind_kernel::hz(),
        calls: connections
            .into_iter()
            .next()
            .ok_or("nothing was recorded")?,
    })
}

fn keep(mut recording: Recording, acks: usize, folder: &Path) -> Result<(), Box<dyn Error>> {
    recording.keep_acks(acks);
    let file = format!("{}-{}.fwr", recording.path, recording.control);
    Ok(recording.write(&folder.join(file.replace(' ', "-").replace('%', "percent")))?)
}
