//! Records what the kernel's sender receives over the slow paths, each for SECONDS, gives it to the
//! simulator's sender and prints the second table of `docs/measurements/replay.md`. With `--keep`,
//! the first ACKs of each connection are kept in a folder.
//!
//! ```text
//! cargo bench -p fairwind-replay --bench tap -- SECONDS [--keep ACKS FOLDER]
//! ```

use std::env;
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fairwind_cc::native;
use fairwind_replay::sender::Agreement;
use fairwind_replay::{path, sender, tap};

/// Exit code if the state of the simulator's sender differed.
const DIFFERENCE: u8 = 3;

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    let arguments: Vec<String> = arguments.collect();
    let done = match &arguments[..] {
        [seconds] => run(seconds, None),
        [seconds, option, acks, folder] if option == "--keep" => {
            run(seconds, Some((acks, Path::new(folder))))
        }
        _ => {
            eprintln!("usage: tap SECONDS [--keep ACKS FOLDER]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(DIFFERENCE),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns false if the state of the simulator's sender differed from the kernel's.
fn run(seconds: &str, keep: Option<(&String, &Path)>) -> Result<bool, Box<dyn Error>> {
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    println!("| path | control | ACKs | alike in everything | cwnd equal |");
    println!("|---|---|---|---|---|");
    let mut all = Agreement::default();
    for path in path::slow() {
        for control in ["reno", "cubic"] {
            let mut exchange = tap::record(&path, control, time)?;
            let parameters = native::find(control).ok_or("no such control")?;
            let agreement = sender::replay(&exchange, &parameters.default_parameters());
            print_row(path.name, control, &agreement);
            all.acks += agreement.acks;
            all.alike += agreement.alike;
            all.cwnd += agreement.cwnd;
            if let Some(difference) = agreement.first_difference {
                eprintln!("{difference:?}");
            }
            if let Some((acks, folder)) = keep {
                exchange.acks.truncate(acks.parse()?);
                let name = format!("{} {control}.fwx", path.name).replace(' ', "-");
                exchange.write(&folder.join(name))?;
            }
        }
    }
    print_row("all", "", &all);
    Ok(all.alike == all.acks)
}

fn print_row(path: &str, control: &str, agreement: &Agreement) {
    println!(
        "| {path} | {control} | {} | {} | {} |",
        agreement.acks, agreement.alike, agreement.cwnd
    );
}
