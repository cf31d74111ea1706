//! The advisor on the command line: paths, history, advice, backtest.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// The clocks of the services start here, and the generated histories end here.
const NOW: &str = "2026-03-02T14:00:00Z";

fn fairwind(state: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .args(arguments)
        .env("STATE_DIRECTORY", state)
        .output()
        .unwrap()
}

fn printed(state: &Path, arguments: &[&str]) -> String {
    let output = fairwind(state, arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// A service, killed when it is dropped.
pub(crate) struct Service {
    child: Child,
    url: String,
}

impl Service {
    fn start(state: &Path) -> Service {
        Service::with(state, &[])
    }

    fn with(state: &Path, arguments: &[&str]) -> Service {
        let arguments = [&["--clock-start", NOW], arguments].concat();
        Service::by(Path::new("."), state, &arguments)
    }

    /// A service started in this folder, on a free port.
    pub(crate) fn by(folder: &Path, state: &Path, arguments: &[&str]) -> Service {
        let mut child = Command::new(env!("CARGO_BIN_EXE_fairwind"))
            .args(["advisor", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(folder)
            .env("STATE_DIRECTORY", state)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        let url = lines.find_map(|line| Some(line.strip_prefix("fairwind advisor: ")?.to_owned()));
        // Drains its messages, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Service {
            child,
            url: url.expect("the service has started"),
        }
    }

    /// Its URL.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn generate(state: &Path) {
    let paths = [
        "advisor",
        "paths",
        "add",
        "lab",
        "10.0.0.0/8",
        "--hop",
        "gateway",
        "--threshold",
        "42",
    ];
    assert_eq!(
        printed(state, &[&paths[..], &["--own"]].concat()),
        "lab is declared\n"
    );
    let generated = printed(
        state,
        &[
            "history", "generate", "--path", "lab", "--weeks", "2", "--until", NOW,
        ],
    );
    assert_eq!(generated, "4032 samples imported\n");
}

#[test]
fn advice_rests_on_a_generated_history() {
    let state = tempfile::tempdir().unwrap();
    generate(state.path());
    let service = Service::start(state.path());
    let ask = [
        "advise",
        "10.0.0.7",
        "--bytes",
        "16000000000",
        "--json",
        "--advisor",
        &service.url,
    ];
    let answer = || -> serde_json::Value {
        let answer = serde_json::from_str(&printed(state.path(), &ask));
        answer.unwrap()
    };
    // The linear model answers until the profile is learned.
    let mut answers = (0..100).map(|_| answer());
    let answer = answers.find(|answer| answer["model"] == "profile").unwrap();
    assert_eq!(answer["path"], "lab");
    // Traffic at two in the afternoon is nearly the most: 70 of 100 Mbit/s.
    assert_eq!(answer["mode"], "congestion-control");
    let available = answer["available_mbps"].as_f64().unwrap();
    assert!((25.0..36.0).contains(&available), "{answer}");
    let text = printed(
        state.path(),
        &["advise", "10.0.0.7", "--advisor", &service.url],
    );
    assert!(
        text.starts_with("mode                 congestion control\n"),
        "{text}"
    );
}

#[test]
fn history_is_shown_and_drawn() {
    let state = tempfile::tempdir().unwrap();
    generate(state.path());
    let service = Service::start(state.path());
    let plot = state.path().join("lab.svg");
    let host = ["history", "10.0.0.7", "--advisor", &service.url];
    let table = printed(state.path(), &host);
    assert!(
        table.contains("gateway") && table.contains("4032"),
        "{table}"
    );
    printed(
        state.path(),
        &[&host[..], &["--plot", plot.to_str().unwrap()]].concat(),
    );
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("threshold"),
        "{svg}"
    );
    let nobody = fairwind(
        state.path(),
        &["history", "192.0.2.1", "--advisor", &service.url],
    );
    assert_eq!(nobody.status.code(), Some(2));
}

#[test]
fn a_running_service_sees_what_is_imported_beside_it() {
    let state = tempfile::tempdir().unwrap();
    let service = Service::start(state.path());
    let file = state.path().join("recorded.csv");
    let text = "time,used_mbps\n2026-03-02T13:50:00Z,40\n2026-03-02T13:55:00Z,30\n2026-03-02T13:55:00Z,30\n1,nan\n";
    std::fs::write(&file, text).unwrap();
    let import = [
        "history",
        "import",
        file.to_str().unwrap(),
        "--path",
        "p",
        "--host",
        "192.0.2.7",
        "--capacity",
        "100",
    ];
    let expected = "2 samples imported\n1 refused: at times that the history already has\n\
                    1 refused: that are not numbers\n";
    assert_eq!(printed(state.path(), &import), expected);
    let ask = ["advise", "192.0.2.7", "--json", "--advisor", &service.url];
    for _ in 0..100 {
        let answer: serde_json::Value = serde_json::from_str(&printed(state.path(), &ask)).unwrap();
        if answer["path"] == "p" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the service has not seen the path");
}

/// Imports a recording without naming a host, runs the command that this prints, and asks for advice. `named`
/// names the state directory, unless the environment does.
fn hosts_are_added_as_the_import_says(state: &Path, named: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recorded.csv");
    fs::write(&file, "time,available_mbps\n2026-03-02T13:55:00Z,30\n").unwrap();
    let import = ["history", "import", file.to_str().unwrap(), "--path", "b"];
    let of_environment = match named.is_empty() {
        true => state,
        false => folder.path(),
    };
    let imported = fairwind(of_environment, &[&import[..], named].concat());
    assert_eq!(imported.status.code(), Some(0), "{imported:?}");
    let told = String::from_utf8(imported.stderr).unwrap();
    let (what, command) = told.trim_end().split_once('\n').unwrap();
    assert_eq!(
        what,
        "no host leads to path b, so nobody is advised from its history yet:"
    );
    let service = Service::start(state);
    let answer = || -> serde_json::Value {
        let ask = ["advise", "192.0.2.7", "--json", "--advisor", &service.url];
        serde_json::from_str(&printed(state, &ask)).unwrap()
    };
    assert_eq!(answer()["path"], serde_json::Value::Null);
    let words = shlex::split(&command.replace("HOST", "192.0.2.7")).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let expected = [
        "fairwind",
        "advisor",
        "paths",
        "add-hosts",
        "b",
        "192.0.2.7",
    ];
    assert_eq!(words, [&expected[..], named].concat());
    assert_eq!(
        printed(of_environment, &words[1..]),
        "b leads to 192.0.2.7\n"
    );
    fairwind_testing::wait_until("advice comes from the path", || answer()["path"] == "b");
    assert_eq!(answer()["available_mbps"], 30.0);
}

#[test]
fn the_command_that_is_named_after_an_import_without_hosts_leads_hosts_to_the_path() {
    let state = tempfile::tempdir().unwrap();
    hosts_are_added_as_the_import_says(state.path(), &[]);
}

#[test]
fn the_command_that_is_named_after_an_import_without_hosts_is_for_the_same_state_directory() {
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("the lab's");
    hosts_are_added_as_the_import_says(&state, &["--state", state.to_str().unwrap()]);
}

/// A test every five minutes during the last hour, each of 60 Mbit/s.
fn tests_of_the_last_hour() -> String {
    let now = jiff::Timestamp::now().as_second();
    let lines = (0..12).map(|n| format!("{},60\n", now - 3_600 + 300 * n));
    format!("time,available_mbps\n{}", lines.collect::<String>())
}

#[test]
fn a_misspelt_hop_is_listed_and_removed_beside_the_running_service() {
    let state = tempfile::tempdir().unwrap();
    let import = |hop: &str, text: &str| {
        let file = state.path().join(format!("{hop}.csv"));
        fs::write(&file, text).unwrap();
        let file = file.to_str().unwrap();
        let import = ["history", "import", file, "--path", "p", "--hop", hop];
        printed(
            state.path(),
            &[&import[..], &["--host", "192.0.2.7"]].concat(),
        );
    };
    import("gateway", &tests_of_the_last_hour());
    import("gatewya", "time,available_mbps\n2026-03-02T13:55:00Z,1\n");
    let hops = |more: &[&str]| printed(state.path(), &[&["advisor", "hops"], more].concat());
    let list = || -> Vec<String> {
        let table = hops(&["list", "p"]);
        let mut lines = table.lines().map(|line| line.split_whitespace());
        let head: Vec<&str> = lines.next().unwrap().collect();
        assert_eq!(head.join(" "), "hop role decides newest test Mbit/s");
        // Without the time of the newest test.
        let row = |words: Vec<&str>| [&words[..3], &words[5..]].concat().join(" ");
        lines.map(|words| row(words.collect())).collect()
    };
    assert_eq!(list(), ["gateway found yes 60.0", "gatewya found no 1.0"]);
    assert!(hops(&["list", "p"]).contains("2026-03-02 13:55:00Z"));
    let service = Service::by(Path::new("."), state.path(), &[]);
    let served = || {
        let history = ["history", "192.0.2.7", "--advisor", &service.url];
        printed(state.path(), &history)
    };
    assert!(served().contains("gatewya"));
    assert_eq!(
        hops(&["remove", "p", "gatewya"]),
        "gatewya is removed from p\n"
    );
    assert_eq!(list(), ["gateway found yes 60.0"]);
    fairwind_testing::wait_until("the service knows the hop no more", || {
        !served().contains("gatewya")
    });
    assert!(served().contains("gateway"));

    let refused = |hop: &str| {
        let output = fairwind(state.path(), &["advisor", "hops", "remove", "p", hop]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused("gatewya");
    assert!(error.contains("gatewya"), "{error}");
    let declare = [
        "advisor",
        "paths",
        "add",
        "p",
        "192.0.2.7",
        "--hop",
        "gateway",
    ];
    printed(state.path(), &declare);
    let error = refused("gateway");
    assert!(error.contains("declare path p without it first"), "{error}");
    let json: serde_json::Value = serde_json::from_str(&hops(&["list", "p", "--json"])).unwrap();
    assert_eq!(json[0]["role"], "declared", "{json}");
}

#[test]
fn samples_of_a_recording_that_make_no_sense_are_refused_and_counted() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("recorded.csv");
    let text = "time,available_mbps\n2026-03-02T13:55:00Z,30\n2026-03-02T13:50:00Z,40\n\
                2026-03-02T13:50:00Z,41\n2026-03-02T13:51:00Z,-1\n2200-01-01T00:00:00Z,30\n\
                2026-03-02T13:52:00Z,inf\n2026-03-02T13:53:00Z,1e12\n1969-12-31T00:00:00Z,30\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let import = [
        "history",
        "import",
        file,
        "--path",
        "p",
        "--host",
        "192.0.2.7",
    ];
    let printed = printed(state.path(), &import);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let expected = [
        "1 refused: at times that the history already has",
        "1 refused: before 1970",
        "1 refused: below 0",
        "1 refused: of the future",
        "2 refused: that are not numbers",
        "2 samples imported",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_routers_counter_leaves_the_rest_of_the_capacity() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("counter.csv");
    // 1.5 GB in 300 s are 40 Mbit/s of 100; the counter of 32 bits wraps.
    let text = "time,octets\n2026-03-02T13:50:00Z,3000000000\n2026-03-02T13:55:00Z,205032704\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let import = [
        "history",
        "import",
        file,
        "--path",
        "p",
        "--host",
        "192.0.2.7",
    ];
    let import = [&import[..], &["--capacity", "100"]].concat();
    assert_eq!(printed(state.path(), &import), "1 samples imported\n");
    let service = Service::start(state.path());
    let table = printed(
        state.path(),
        &["history", "192.0.2.7", "--advisor", &service.url],
    );
    assert!(table.contains("60.0"), "{table}");
}

#[test]
fn a_configuration_declares_paths_and_names_the_log_to_follow() {
    let state = tempfile::tempdir().unwrap();
    let (config, log) = (
        state.path().join("advisor.toml"),
        state.path().join("xferlog"),
    );
    std::fs::write(&log, "").unwrap();
    let text = format!(
        "xferlog = {log:?}\n[[path]]\nname = \"argonne\"\nhosts = [\"192.0.2.0/24\"]\n\
         threshold_mbps = 42\nping = {{ interval_s = 0 }}\n"
    );
    std::fs::write(&config, text).unwrap();
    let service = Service::with(state.path(), &["--config", config.to_str().unwrap()]);
    let path_of = |host: &str| -> serde_json::Value {
        let ask = ["advise", host, "--json", "--advisor", &service.url];
        let answer = printed(state.path(), &ask);
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()["path"].clone()
    };
    assert_eq!(path_of("192.0.2.7"), "argonne");
    // Appended while the log is followed, whether from its beginning or from when it was found empty.
    let line = "Mon Mar  2 14:00:00 2026 12 198.51.100.7 16000000 /pub/f b _ o a ftp ftp 0 * c\n";
    for _ in 0..100 {
        if path_of("198.51.100.7") == "198.51.100.7" {
            return;
        }
        let mut file = std::fs::File::options().append(true).open(&log).unwrap();
        std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("the log makes no path");
}

#[test]
fn models_are_judged_on_a_recording() {
    let state = tempfile::tempdir().unwrap();
    let curve = printed(
        state.path(),
        &[
            "history", "generate", "--csv", "--weeks", "3", "--until", NOW,
        ],
    );
    let file = state.path().join("curve.csv");
    std::fs::write(&file, curve).unwrap();
    let backtest = [
        "advisor",
        "backtest",
        file.to_str().unwrap(),
        "--threshold",
        "42",
        "--json",
    ];
    let reports: serde_json::Value =
        serde_json::from_str(&printed(state.path(), &backtest)).unwrap();
    let reports = reports.as_array().unwrap();
    let error_of = |model: &str| {
        let report = reports.iter().find(|report| report["model"] == model);
        let report = report.unwrap_or_else(|| panic!("{model} is judged"));
        assert!(
            report["following"]["calls_per_hour"].as_f64().unwrap() > 0.0,
            "{report}"
        );
        report["mean_absolute_error_mbps"].as_f64().unwrap()
    };
    assert_eq!(reports.len(), 5);
    for report in reports {
        assert_eq!(report["ahead_minutes"], 60, "{report}");
        assert!(report["judged"].as_u64().unwrap() > 0, "{report}");
    }
    // The noise alone has a mean of 1.6.
    let profile = error_of("profile");
    assert!((1.0..3.0).contains(&profile), "{profile}");
    // The straight lines treat a weekend like any other day.
    let linear = error_of("linear");
    assert!(linear > 2.0 * profile, "{linear} against {profile}");
}

#[test]
fn a_backtest_tells_horizon_interval_widths_and_baselines() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("steps.csv");
    // A test every five minutes for nine days, 1 Mbit/s more every day.
    let first: jiff::Timestamp = "2026-03-02T00:00:00Z".parse().unwrap();
    let lines = (0..9 * 288).map(|n| format!("{},{}\n", first.as_second() + 300 * n, 40 + n / 288));
    let text = format!("time,available_mbps\n{}", lines.collect::<String>());
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let backtest = ["advisor", "backtest", file, "--ahead", "30"];
    let the_last_day = [&backtest[..], &["--from", "2026-03-10T00:00:00Z"]].concat();
    let text = printed(state.path(), &the_last_day);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "steps.csv: forecast 30 minutes ahead, judged from 2026-03-10 00:00:00Z",
            ""
        ]
    );
    let cell = |row: &str, head: &str| {
        let at = lines[2]
            .find(head)
            .unwrap_or_else(|| panic!("{head}: {text}"));
        // The names of the models are wider than the head of their column.
        let end = match head {
            "model" => lines[2].find("judged").unwrap(),
            _ => at + head.len(),
        };
        let cell = row.get(at..end.min(row.len())).unwrap_or_default();
        cell.trim().to_owned()
    };
    let with = |models: &[&str], head: &str| -> Vec<String> {
        let row = |model: &&str| {
            let mut rows = lines[3..].iter();
            let row = rows.find(|row| cell(row, "model") == *model);
            cell(row.unwrap_or_else(|| panic!("{model}: {text}")), head)
        };
        models.iter().map(row).collect()
    };
    assert_eq!(lines.len(), 3 + 5, "{text}");
    let baselines = ["last value", "same time yesterday", "same time last week"];
    assert_eq!(with(&baselines, "judged"), ["288", "288", "288"]);
    // Half an hour before, the first six tests of the day were still those of yesterday: 6 / 288.
    assert_eq!(
        with(&baselines, "error Mbit/s"),
        ["0.021", "1.000", "7.000"]
    );
    assert_eq!(with(&baselines, "width Mbit/s"), ["", "", ""]);
    assert_eq!(with(&["linear"], "width Mbit/s"), [""]);

    let json = printed(state.path(), &[&the_last_day[..], &["--json"]].concat());
    let reports: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    let profile = reports.iter().find(|report| report["model"] == "profile");
    let width = profile.unwrap()["interval_width_mbps"].as_f64().unwrap();
    assert!(width > 0.0);
    assert_eq!(with(&["profile"], "width Mbit/s"), [format!("{width:.2}")]);
}

#[test]
fn a_backtest_leaves_blank_what_could_not_be_judged() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("short.csv");
    // Nothing is known an hour before the test that is judged, and no time passes in which to follow advice.
    fs::write(&file, "time,available_mbps\n2026-03-02T13:55:00Z,30\n").unwrap();
    let file = file.to_str().unwrap();
    let backtest = ["advisor", "backtest", file, "--threshold", "42"];
    let text = printed(state.path(), &backtest);
    let rows: Vec<&str> = text.lines().skip(3).map(str::trim_end).collect();
    let expected = [
        "short.csv  linear                    0",
        "short.csv  profile                   0",
        "short.csv  last value                0",
        "short.csv  same time yesterday       0",
        "short.csv  same time last week       0",
    ];
    assert_eq!(rows, expected);
}

/// A call on a state directory that can only be read: by file permissions, or for root, whom those do not
/// concern, by a mount that only the call sees.
fn only_reading(state: &Path, arguments: &[&str]) -> Output {
    if fairwind_testing::root().is_ok() {
        let mount = "mount --bind \"$STATE_DIRECTORY\" \"$STATE_DIRECTORY\" && \
                     mount -o remount,bind,ro \"$STATE_DIRECTORY\" && exec \"$0\" \"$@\"";
        return Command::new("unshare")
            .args(["--mount", "sh", "-c", mount])
            .arg(env!("CARGO_BIN_EXE_fairwind"))
            .args(arguments)
            .env("STATE_DIRECTORY", state)
            .output()
            .unwrap();
    }
    let permit = |files: u32, folder: u32| {
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(state, 0o700);
        for entry in fs::read_dir(state).unwrap() {
            mode(&entry.unwrap().path(), files);
        }
        mode(state, folder);
    };
    permit(0o400, 0o500);
    let output = fairwind(state, arguments);
    permit(0o600, 0o700);
    output
}

#[test]
fn a_store_that_can_only_be_read_is_named_with_what_helps() {
    if fairwind_testing::root().is_ok() {
        let mut trial = Command::new("unshare");
        let there = trial.args(["--mount", "true"]).status();
        let there = there.is_ok_and(|status| status.success());
        let needed = there.then_some(()).ok_or("a mount namespace is needed");
        if !fairwind_testing::permitted(needed) {
            return;
        }
    }
    let state = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], file: &str, problem: &str| {
        let output = only_reading(state.path(), arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        let named = format!("error: {}: ", state.path().join(file).display());
        assert!(error.starts_with(&named), "{arguments:?}: {error}");
        assert!(error.contains(problem), "{arguments:?}: {error}");
        let cure = "writable for the user of the service";
        assert!(error.contains(cure), "{arguments:?}: {error}");
    };
    let add = ["advisor", "paths", "add", "p", "192.0.2.7"];
    let serve = ["advisor", "--listen", "127.0.0.1:0"];
    // Killed, so that log and index of the database stay, with which it can be read, but not written.
    drop(Service::start(state.path()));
    refused(&add, "advisor.db", "readonly");
    refused(&serve, "advisor.lock", "");
    // Closed as usual, they are gone.
    printed(state.path(), &["advisor", "paths", "list"]);
    refused(&add, "advisor.db", "");
    refused(&serve, "advisor.lock", "");
    // An empty directory.
    for entry in fs::read_dir(state.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    refused(&add, "advisor.db", "");
    refused(&serve, "advisor.db", "");
}

#[test]
fn one_service_works_in_a_state_directory() {
    let state = tempfile::tempdir().unwrap();
    let _service = Service::start(state.path());
    let second = fairwind(state.path(), &["advisor", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr);
    assert!(error.contains("another advisor works here"), "{error}");
}

#[test]
fn wrong_input_is_named() {
    let state = tempfile::tempdir().unwrap();
    let config = state.path().join("advisor.toml");
    std::fs::write(&config, "[[path]]\nname = \"a\"\nhosts = [\"1.2.3\"]\n").unwrap();
    for (arguments, expected) in [
        (
            vec!["advisor", "--config", config.to_str().unwrap()],
            "1.2.3",
        ),
        (vec!["advisor", "paths", "remove", "nobody"], "nobody"),
        (vec!["advisor", "backtest", "--path", "nobody"], "nobody"),
        (
            vec!["advise", "h", "--advisor", "ftp://example.org"],
            "example.org",
        ),
        (vec!["advisor", "--clock-rate", "0"], "0.001"),
    ] {
        let output = fairwind(state.path(), &arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn a_token_goes_into_a_new_file_that_nobody_else_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (tokens, into) = (path("tokens"), path("token"));
    let make = ["advisor", "token", &tokens, "--read", "--into", &into];
    assert_eq!(printed(folder.path(), &make), "");
    let token = fs::read_to_string(&into).unwrap();
    assert_eq!(fs::metadata(&into).unwrap().mode() & 0o777, 0o600);
    let known = fs::read_to_string(&tokens).unwrap();
    assert_eq!(known, format!("read {token}"));

    // The file exists, so it is not overwritten, and no token is added.
    let output = fairwind(folder.path(), &make);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&into));
    assert_eq!(fs::read_to_string(&tokens).unwrap(), known);
}
