//! What the pages tell their readers to type, executed.
//!
//! Every recipe that involves the advisor runs here, in its own folder and against its own service. That all
//! other lines are valid command lines is checked beside the command line itself (`src/command/tests/pages.rs`).

mod architecture;
mod links;
pub(crate) mod recipes;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use fairwind_testing::eventually;
use jiff::{SignedDuration, Timestamp};

use crate::advisor::Service;
use recipes::{Block, Call, blocks, calls};

/// What the pages presuppose: a router's counter of the last two weeks, until now.
fn router_csv() -> String {
    let step = SignedDuration::from_mins(5);
    let readings = 14 * 24 * 12;
    let mut time = Timestamp::now() - step * readings;
    let (mut csv, mut octets) = ("time,octets\n".to_owned(), 0_u64);
    for reading in 0..readings {
        // Between 40 and 100 Mbit/s, up and down in a day of 288 readings.
        let share = f64::from((reading % 288 - 144).abs()) / 144.0;
        octets += ((40.0 + 60.0 * share) * 1e6 / 8.0 * 300.0) as u64;
        writeln!(csv, "{time},{octets}").unwrap();
        time += step;
    }
    csv
}

fn is_the_advisors(call: &Call) -> bool {
    let first = call.arguments.first().map(String::as_str);
    matches!(first, Some("advisor" | "advise" | "history"))
}

/// Whether it serves until it is stopped.
fn serves(call: &Call) -> bool {
    let actions = ["paths", "hops", "backtest", "openapi", "token"];
    let action = call.arguments.get(1).map(String::as_str);
    call.arguments[0] == "advisor" && !action.is_some_and(|action| actions.contains(&action))
}

/// A folder with what the pages presuppose: a recording, a certificate.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for (name, text) in [
        ("router.csv", router_csv()),
        ("cert.pem", signed.cert.pem()),
        ("key.pem", signed.signing_key.serialize_pem()),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The word with this machine's addresses in place of those on the pages.
fn here(word: &str, service: Option<&Service>) -> String {
    if word == "0.0.0.0:8649" {
        return "127.0.0.1:0".to_owned();
    }
    match service.filter(|_| word.starts_with("http") && word.ends_with(":8649")) {
        // The certificate is for a name, not an address.
        Some(service) => service
            .url()
            .replace("https://127.0.0.1", "https://localhost"),
        None => word.to_owned(),
    }
}

fn run(folder: &Path, call: &Call, service: Option<&Service>) -> Output {
    let arguments = call.arguments.iter().map(|word| here(word, service));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwind"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("STATE_DIRECTORY", folder.join("state"))
        .env("SSL_CERT_FILE", folder.join("cert.pem"))
        .envs(service.map(|service| ("FAIRWIND_ADVISOR", service.url())))
        .envs(call.environment.iter().cloned());
    let output = command.output().unwrap();
    if let Some(into) = &call.into {
        std::fs::write(folder.join(into), &output.stdout).unwrap();
    }
    output
}

/// Runs the block's lines one after the other, waiting for each.
fn follow(block: &Block) {
    let folder = folder();
    let has = |word: &str| {
        let mut words = block.calls.iter().flat_map(|call| &call.arguments);
        words.any(|there| there == word)
    };
    let has_path = has("--path") || has("add");
    let mut service: Option<Service> = None;
    for call in block.calls.iter().filter(|call| is_the_advisors(call)) {
        if serves(call) {
            let more = call.arguments[1..].iter().map(|word| here(word, None));
            let more: Vec<String> = more.collect();
            let more: Vec<&str> = more.iter().map(String::as_str).collect();
            let state = folder.path().join("state");
            service = Some(Service::by(folder.path(), &state, &more));
            continue;
        }
        let mut output = None;
        // A service notices changes by other processes within two seconds.
        let answered = eventually(|| {
            let output = output.insert(run(folder.path(), call, service.as_ref()));
            let text = String::from_utf8_lossy(&output.stdout);
            output.status.success() && !(has_path && text.contains("no path leads to"))
        });
        assert!(answered, "{}: {call:?}: {output:?}", block.place);
    }
}

#[test]
fn the_advisors_recipes_do_what_their_pages_say() {
    let blocks = blocks();
    let recipes = blocks
        .iter()
        .filter(|block| block.calls.iter().any(is_the_advisors));
    let followed: Vec<&str> = recipes
        .map(|block| {
            follow(block);
            block.place.split(':').next().unwrap()
        })
        .collect();
    for page in ["README.md", "docs/how-to/run-the-advisor.md"] {
        assert!(
            followed.contains(&page),
            "{page} has a recipe: {followed:?}"
        );
    }
}

#[test]
fn a_line_of_a_page_is_read_as_a_shell_reads_it() {
    let script = "fairwind serve /srv/data &   # for all\n\
                  time fairwind cc load --all \\\n  --replace\n\
                  A=1 fairwind lab exec --server 'iperf3 -s -1' | tee log\n\
                  fairwind sim run a.toml && fairwind schema > out\n\
                  cargo bench -p fairwind --bench dumbbell && cd fairwind\n";
    let call = |arguments: &[&str]| Call {
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        ..Call::default()
    };
    let expected = [
        Call {
            background: true,
            ..call(&["serve", "/srv/data"])
        },
        call(&["cc", "load", "--all", "--replace"]),
        Call {
            environment: vec![("A".to_owned(), "1".to_owned())],
            ..call(&["lab", "exec", "--server", "iperf3 -s -1"])
        },
        call(&["sim", "run", "a.toml"]),
        Call {
            into: Some("out".to_owned()),
            ..call(&["schema"])
        },
    ];
    assert_eq!(calls(script), expected);
}
