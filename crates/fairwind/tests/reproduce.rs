//! `fairwind reproduce` as its users meet it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fairwind_cc::kernel;
use fairwind_testing::{install_root, or_skip, permitted, proftpd_module, root};
use tempfile::TempDir;

use crate::turn::in_the_lab;

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// Calls it in a folder that is no clone, with the plans of this one.
fn reproduce(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(folder)
        .arg("reproduce")
        .args(arguments)
        .arg("--experiments")
        .arg(experiments())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What is said of wrong usage.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn without_a_name_all_tables_and_figures_are_listed_with_their_states() {
    let folder = TempDir::new().unwrap();
    let list = out(&reproduce(folder.path(), &[]));
    let state = |id: &str| {
        let line = list
            .lines()
            .find(|line| line.split_whitespace().next() == Some(id));
        line.unwrap_or_else(|| panic!("no {id}: {list}")).to_owned()
    };
    assert!(state("enable:table-3").ends_with("made, by dccs (sim, lab)"));
    assert!(state("web100:figure-4.1").ends_with("made, by web100-dummynet (sim, both)"));
    assert!(state("drsftp:figure-8").ends_with("made, by drsftp (lab)"));
    assert!(state("imtcp:figure-7").ends_with("made, by imtcp-bg (sim)"));
    assert!(state("enable:figure-9").ends_with("made, by dccs (sim)"));
    assert!(state("drsftp:figure-1").contains("not made: "));
    assert!(state("validation").contains("both, sim, lab"));
}

#[test]
fn without_a_clone_it_says_where_plans_are() {
    let folder = TempDir::new().unwrap();
    for arguments in [&["reproduce"][..], &["reproduce", "dccs"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_fairwind"))
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let refusal = refusal(&output);
        assert!(refusal.contains("experiments"), "{refusal}");
        assert!(refusal.contains("--experiments DIR"), "{refusal}");
    }
}

#[test]
fn without_a_kept_run_there_is_no_table() {
    let folder = TempDir::new().unwrap();
    let cell = [
        "control=reno",
        "bandwidth=10",
        "rtt=20",
        "queue=codel",
        "foreground=cubic",
        "background=1",
    ];
    let only = cell.iter().flat_map(|part| ["--only", *part]);
    let arguments: Vec<&str> = ["background", "--kept"].into_iter().chain(only).collect();
    let whole = |plan| vec![plan, "--kept"];
    for (plan, arguments) in [
        ("background", arguments),
        ("validation", whole("validation")),
        ("queues", whole("queues")),
    ] {
        let output = reproduce(folder.path(), &arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty());
        let none = format!("none of the runs is kept by this program in out/{plan}");
        assert!(said.contains(&none), "{said}");
        assert!(!folder.path().join("out").exists());
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_what_can() {
    let folder = TempDir::new().unwrap();
    let refused = |arguments: &[&str]| refusal(&reproduce(folder.path(), arguments));
    let said = refused(&["imtcp:table-2"]);
    assert!(said.contains("not made: HZ is the clock"), "{said}");
    let said = refused(&["web100:figure-4.31"]);
    assert!(said.contains("did you mean web100:figure-4.1?"), "{said}");
    // Without the paper.
    let said = refused(&["table-4.1"]);
    assert!(said.contains("no plan is called table-4.1"), "{said}");
    assert!(said.contains("did you mean web100:table-4.1?"), "{said}");
    let said = refused(&["drsftp:figure"]);
    assert!(said.contains("did you mean drsftp:figure-"), "{said}");
    let said = refused(&["drsftp", "--engine", "sim"]);
    assert!(said.contains("cannot run with --engine sim"), "{said}");
    let said = refused(&["dccs", "--only", "server=proftpd"]);
    assert!(
        said.contains("ProFTPD serves in the lab alone\n  help: --engine lab"),
        "{said}"
    );
    let said = refused(&["web100-dummynet", "--only", "figure-4.25"]);
    assert!(
        said.contains("no run of web100-dummynet is figure-4.25"),
        "{said}"
    );
    let said = refused(&["web100-dummynet", "--quick", "--page", "page.md"]);
    assert!(said.contains("a page shows whole studies"), "{said}");
}

#[test]
fn a_page_is_not_completed_by_no_runs() {
    let folder = TempDir::new().unwrap();
    let page = folder.path().join("page.md");
    fs::write(&page, "as it was").unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/page-sim.csv"), "control\n").unwrap();
    let only = ["--only", "control=bbr", "--kept", "--page"];
    let arguments = [&["background"][..], &only, &[page.to_str().unwrap()]].concat();
    let output = reproduce(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("none of the runs is kept"), "{said}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "as it was");
}

#[test]
fn what_is_not_kept_is_no_result() {
    let folder = TempDir::new().unwrap();
    let output = reproduce(folder.path(), &["drsftp:figure-4", "--kept"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("no result for drsftp:figure-4 in out/drsftp"),
        "{said}"
    );
    assert!(said.contains("help: without --kept it is made"), "{said}");
}

#[test]
fn a_page_that_is_not_there_is_found_before_anything_is_run() {
    let folder = TempDir::new().unwrap();
    let arguments = ["web100-dummynet", "--page", "nowhere.md"];
    let output = reproduce(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("error: nowhere.md: No such file"),
        "{said}"
    );
    assert!(!folder.path().join("out").exists());
}

/// A figure with few packets, so that all its seeds are run: the recorded numbers come out.
#[test]
fn a_figure_of_the_simulator_comes_out_as_recorded_and_is_kept() {
    let folder = TempDir::new().unwrap();
    let arguments = ["web100:figure-4.8", "--out", "results"];
    let first = reproduce(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(said.contains("results/sim/figure-4.8: "), "{said}");
    let first = out(&first);
    for expected in [
        "Figure 4.8: loss 0.10, throughput and its average (Web100-Dummynet: Bassi's thesis)",
        "the paper found: less than 2",
        "ours, recorded:  2.30 ± 0.14; ",
        "verdict:         differs: ",
        "\n  results/tables/figures-4.1-to-4.8.md\n",
        "\n  results/tables/figures-4.1-to-4.8.csv\n",
        "\n  results/sim/figure-4.8/seed-1/plots/throughput.svg\n",
        "\n  results/sim/figure-4.8/seed-1/plots/average_throughput.svg\n",
        "\n| 4.8 | less than 2 | simulator | 2.30 ± 0.14 |",
        "2 of 2 rows are as on docs/measurements/web100-dummynet.md",
    ] {
        assert!(first.contains(expected), "{expected}: {first}");
    }
    let csv = folder.path().join("results/tables/figures-4.1-to-4.8.csv");
    let csv = fs::read_to_string(csv).unwrap();
    assert!(
        csv.contains("\n4.8,less than 2,simulator,2.30 ± 0.14,"),
        "{csv}"
    );
    let again = reproduce(folder.path(), &arguments);
    assert_eq!(String::from_utf8_lossy(&again.stderr), "");
    assert_eq!(out(&again), first);
    // What is kept is of other seeds now.
    let quick = out(&reproduce(
        folder.path(),
        &["web100:figure-4.8", "--out", "results", "--quick"],
    ));
    assert!(
        quick.contains("\n| 4.8 | less than 2 | simulator | "),
        "{quick}"
    );
    assert!(!quick.contains("| 2.30 ± 0.14 |"), "{quick}");
}

#[test]
fn figures_over_the_times_of_day_have_a_panel_for_the_thesis_and_for_our_series() {
    let folder = TempDir::new().unwrap();
    for (figure, expected) in [
        (
            "17",
            ["beside standard FTP", ">thesis<", ">generated<", ">21:10<"],
        ),
        ("9", ["available", "threshold", ">generated<", "Time (min)"]),
    ] {
        let name = format!("enable:figure-{figure}");
        let said = out(&reproduce(
            folder.path(),
            &[&name, "--scale", "0.002", "--out", "results"],
        ));
        let file = format!("results/figures/figure-{figure}.svg");
        assert!(said.contains(&format!("\n  {file}\n")), "{said}");
        let svg = fs::read_to_string(folder.path().join(file)).unwrap();
        for text in expected {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}

#[test]
fn a_page_gets_the_tables_of_a_whole_study() {
    let folder = TempDir::new().unwrap();
    // A study of one short cell of its own.
    let study = folder.path().join("experiments/short");
    fs::create_dir_all(&study).unwrap();
    let experiment =
        fs::read_to_string(experiments().join("validation/reno-5mbit-100ms-0.2bdp.toml"));
    fs::write(study.join("cell.toml"), experiment.unwrap()).unwrap();
    let plan = "title = \"Short\"\nstudy = \"simulator-and-kernel\"\nengines = [\"sim\"]\n\
                [[run]]\nexperiment = \"cell\"\nset = [\"duration=12s\"]\n";
    fs::write(study.join("plan.toml"), plan).unwrap();
    let page = "# Page\n\n<!-- run -->\n<!-- end -->\n\n<!-- cells -->\nold\n<!-- end -->\n";
    fs::write(folder.path().join("page.md"), page).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(folder.path())
        .args(["reproduce", "short", "--page", "page.md"])
        .output()
        .unwrap();
    let said = out(&output);
    assert!(said.starts_with("0 cells in both engines.\n"), "{said}");
    assert!(said.ends_with("page.md\n"), "{said}");
    let page = fs::read_to_string(folder.path().join("page.md")).unwrap();
    assert!(page.contains("\n| cell | "), "{page}");
    let runs = fs::read_to_string(folder.path().join("data/page-sim.csv")).unwrap();
    let mut runs = runs.lines();
    let head = runs.next().unwrap();
    assert!(head.starts_with("# commit unknown, 20"), "{head}");
    assert!(
        head.ends_with(", fairwind reproduce short --engine sim"),
        "{head}"
    );
    assert!(runs.next().unwrap().starts_with("cell,seeds,"));
    assert!(runs.next().unwrap().starts_with("cell,1,"));
    assert!(!page.contains("old"), "{page}");
    assert!(
        folder
            .path()
            .join("out/short/cell/sim/result.json")
            .is_file()
    );
}

#[test]
fn the_demonstration_is_a_study_too() {
    let folder = TempDir::new().unwrap();
    let arguments = ["demonstration", "--engine", "sim", "--quick"];
    let first = reproduce(folder.path(), &arguments);
    let said = String::from_utf8_lossy(&first.stderr).into_owned();
    assert!(
        said.contains("out/demonstration/sim/day-seed-1-1"),
        "{said}"
    );
    let first = out(&first);
    assert!(
        first.starts_with(
            "<!-- sim day -->\n| | standard TCP | NOCC throughout | advised | background |\n"
        ),
        "{first}"
    );
    let results = folder.path().join("out/demonstration");
    assert!(results.join("sim/day-seed-1-1/report.html").is_file());

    // It is what `fairwind demo` shows, and kept.
    let demo = Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(folder.path())
        .args(["demo", "--sim", "--quick", "--seed", "1"])
        .output()
        .unwrap();
    let shown = out(&demo);
    let background = shown.lines().find(|line| line.starts_with("background "));
    let mbps = background.unwrap().split_whitespace().nth(1).unwrap();
    let row = first
        .lines()
        .find(|line| line.contains("throughput, Mbit/s"));
    assert!(row.unwrap().ends_with(&format!("| {mbps} |")), "{first}");
    let again = reproduce(folder.path(), &arguments);
    assert_eq!(String::from_utf8_lossy(&again.stderr), "");
    assert_eq!(out(&again), first);
    let runs = fs::read_to_string(results.join("tables/runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 1 + 4, "{runs}");
}

/// Two cells of the suite for background transfers: Reno alone, and beside Cubic.
#[test]
fn the_suite_for_background_transfers_leaves_tables_experiments_and_a_page() {
    let folder = TempDir::new().unwrap();
    let only = [
        "control=reno",
        "bandwidth=10",
        "rtt=20",
        "queue=1bdp",
        "foreground=cubic,none",
        "background=1",
        "loss=0%",
        "noise=none",
        "engine=sim",
    ];
    let bench = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fairwind"))
            .current_dir(folder.path())
            .args([
                "bench",
                "background",
                "--quick",
                "--jobs",
                "1",
                "--out",
                "results",
            ])
            .arg("--experiments")
            .arg(experiments())
            .args(only.iter().flat_map(|only| ["--only", only]))
            .args(more)
            .output()
            .unwrap();
        (out(&output), String::from_utf8(output.stderr).unwrap())
    };
    let (first, said) = bench(&[]);
    // Solo, oracle and Reno, and Reno alone.
    assert!(said.ends_with("4 of 4 runs\n"), "{said}");
    for expected in [
        "Alone, one flow\n",
        "aim: of the link alone: median at least 0.985; ",
        " 10mbit-20ms-1bdp-none-1bg",
        " 10mbit-20ms-1bdp-cubic-1bg",
        "results/frontier.html\n",
    ] {
        assert!(first.contains(expected), "{expected}: {first}");
    }
    let results = folder.path().join("results");
    let csv = fs::read_to_string(results.join("tables/runs.csv")).unwrap();
    let heads = "control,bandwidth,rtt,queue,foreground,background,loss,trip,noise,offload,engine,seed,kept,\
                 kept_second_half,used,spare_share,alone,fct_p50,fct_p99,queue_added_p50_ms,queue_added_p99_ms,jain,yield_rtt,\
                 reclaim_s,back_s,missed,missed_solo";
    assert_eq!(csv.lines().next(), Some(heads));
    let row = |begins: &str| {
        let found = csv.lines().find(|line| line.starts_with(begins));
        let row = found.unwrap_or_else(|| panic!("no {begins}: {csv}"));
        row.split(',').map(str::to_owned).collect::<Vec<_>>()
    };
    let number = |row: &[String], name: &str| {
        let at = heads.split(',').position(|head| head == name).unwrap();
        row[at].parse::<f64>().ok()
    };
    let beside = row("reno,10,20,1bdp,cubic,1,0%,equal,none,send,sim,1,");
    let kept = number(&beside, "kept").unwrap();
    // Reno is no background: it takes a good part from Cubic.
    assert!((0.02..0.95).contains(&kept), "{kept}");
    // Cubic alone fills a queue of one bandwidth-delay product.
    assert!(number(&beside, "spare_share").unwrap() < 0.1, "{beside:?}");
    let alone = row("reno,10,20,1bdp,none,1,0%,equal,none,send,sim,1,");
    assert!(number(&alone, "alone").unwrap() > 0.95, "{alone:?}");
    assert_eq!(number(&alone, "kept"), None);
    // Every run can be made by hand.
    let run = results.join("sim/10mbit-20ms-1bdp-cubic/reno-1bg");
    assert!(run.join("index.html").is_file());
    for file in ["reno-1bg", "solo", "oracle"] {
        let check = Command::new(env!("CARGO_BIN_EXE_fairwind"))
            .arg("check")
            .arg(run.join("..").join(file).join("seed-1.toml"))
            .output()
            .unwrap();
        assert!(out(&check).contains("bottleneck"));
    }
    // It goes on where it stopped, and says the same.
    fs::remove_file(run.join("seed-1.json")).unwrap();
    let (second, said) = bench(&[]);
    assert!(said.ends_with("1 of 1 runs\n"), "{said}");
    assert_eq!(second, first);
    let (kept, said) = bench(&["--kept"]);
    assert_eq!((kept, said.as_str()), (first, ""));
}

/// A tenth of the scaled-down file, in the morning, when the advisor lets congestion control be switched off.
const MORNING: [&str; 11] = [
    "dccs",
    "--engine",
    "lab",
    "--scale",
    "0.1",
    "--only",
    "others=0",
    "--only",
    "level=45",
    "--only",
    "time=07:25",
];

/// Whether transfers of the thesis can be made on the kernel.
fn can_move_files() -> bool {
    permitted(kernel::check_requirements()) && permitted(root())
}

#[test]
fn transfers_of_the_thesis_are_made_by_both_servers_and_kept() {
    let Some(_turn) = in_the_lab() else { return };
    let proftpd = or_skip(install_root("proftpd")).zip(or_skip(proftpd_module()));
    if !can_move_files() || proftpd.is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let made = |more: &[&str]| {
        let ways = ["--only", "way=standard,nocc,all history"];
        let losses = ["--only", "losses=rounded", "--out", "results"];
        let arguments = [&MORNING[..], &ways, &losses, more].concat();
        let output = reproduce(folder.path(), &arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (out(&output), said)
    };
    let (first, said) = made(&[]);
    for server in ["lab", "lab-proftpd"] {
        for way in ["standard", "nocc", "advised"] {
            let name = format!("{server}-45-2-beside-0-{way}: ");
            assert!(said.contains(&name), "{name}: {said}");
        }
    }
    // In the order of the thesis: what each way is told.
    let runs = || fs::read_to_string(folder.path().join("results/tables/runs.csv")).unwrap();
    let answers = |series: &str| {
        let runs = runs();
        let of_series = runs.lines().filter_map(|row| row.strip_prefix(series));
        let last = |row: &str| row.rsplit(',').next().unwrap().to_owned();
        of_series.map(last).collect::<Vec<_>>()
    };
    for series in ["lab,0,", "\"lab, ProFTPD\",0,"] {
        assert_eq!(answers(series), ["", "", "0"], "{series} {}", runs());
    }
    assert!(first.contains("\n|  | lab, ProFTPD | "), "{first}");

    let (kept, said) = made(&["--kept"]);
    assert_eq!((kept, said.as_str()), (first, ""));
    made(&["--kept", "--only", "server=proftpd"]);
    assert!(answers("lab,0,").is_empty(), "{}", runs());
    assert_eq!(answers("\"lab, ProFTPD\",0,").len(), 3, "{}", runs());
}

#[test]
fn without_proftpd_its_transfers_are_left_out() {
    let Some(_turn) = in_the_lab() else { return };
    if !can_move_files() {
        return;
    }
    // A clone that cannot build the module.
    let folder = TempDir::new().unwrap();
    let plan = folder.path().join("experiments/dccs");
    fs::create_dir_all(&plan).unwrap();
    for file in fs::read_dir(experiments().join("dccs")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), plan.join(file.file_name())).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .current_dir(folder.path())
        .arg("reproduce")
        .args(MORNING)
        .args(["--only", "way=standard", "--only", "losses=rounded"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let made = out(&output);
    assert!(
        said.contains("scripts/proftpd-module: No such file"),
        "{said}"
    );
    assert!(
        said.contains("help: without it the transfers by ProFTPD are left out\n"),
        "{said}"
    );
    assert!(said.contains("lab-45-2-beside-0-standard: "), "{said}");
    assert!(!made.contains("ProFTPD"), "{made}");
}
