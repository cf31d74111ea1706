pub(crate) mod fixture;

use std::fs;

use fairwind_result::RESULT_FILE;

use super::*;

fn report(folder: &Path) -> String {
    fs::read_to_string(write(folder).unwrap()).unwrap()
}

/// What a browser might load: every value of an attribute that can name a file, and CSS urls.
fn references(html: &str) -> Vec<&str> {
    [
        "src=\"",
        "href=\"",
        "action=\"",
        "data=\"",
        "url(",
        "@import",
    ]
    .iter()
    .flat_map(|start| html.match_indices(start))
    .map(|(at, start)| {
        let value = &html[at + start.len()..];
        &value[..value.find(['"', ')']).unwrap_or(value.len())]
    })
    .collect()
}

#[test]
fn a_report_holds_tables_plots_experiment_and_accounting() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_run(folder.path(), 2, 30, 7);
    let html = report(folder.path());
    for part in [
        "<h1>Reno against itself, 15 Mbit/s, 20 ms RTT</h1>",
        "<span>seed 7</span>",
        "flow 2</td>",
        "bottleneck</td>",
        "data-plot=\"queue\"",
        "bandwidth = &quot;15Mbit/s&quot;",
        "Bandwidth counts IP bytes",
        "fairwind 0.1.0",
    ] {
        assert!(html.contains(part), "{part}");
    }
    for plot in ["throughput", "average_throughput", "cwnd", "rtt", "queue"] {
        let path = folder.path().join(format!("plots/{plot}.svg"));
        assert!(path.is_file(), "{plot}");
    }
}

#[test]
fn a_report_refers_to_nothing_outside() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_run(folder.path(), 1, 5, 1);
    let html = report(folder.path());
    assert_eq!(references(&html), Vec::<&str>::new());
    assert!(!html.contains("http:") && !html.contains("https:"));
    assert!(html.contains("default-src 'none'"));
}

#[test]
fn markup_from_a_user_stays_text() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = fixture::write_run(folder.path(), 1, 5, 1);
    let hostile = "</title></script><script>alert('1')</script>";
    run.title = hostile.into();
    run.engine = hostile.into();
    run.stack = hostile.into();
    run.accounting = hostile.into();
    run.versions.insert(hostile.into(), hostile.into());
    run.overrides = vec![hostile.into()];
    run.flows[0].name = hostile.into();
    run.flows[0].congestion_control = Some(hostile.into());
    run.links[0].name = hostile.into();
    run.write(folder.path()).unwrap();
    fs::write(folder.path().join(EXPERIMENT_FILE), hostile).unwrap();
    let html = report(folder.path());
    assert!(!html.contains("alert('1')"));
    assert!(html.contains("alert(&#39;1&#39;)"));
    // The data, the library and the script that draws.
    assert_eq!(html.matches("<script").count(), 3);
    assert_eq!(html.matches("</script>").count(), 3);
}

#[test]
fn the_same_result_gives_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_run(folder.path(), 2, 5, 1);
    assert_eq!(report(folder.path()), report(folder.path()));
}

#[test]
fn a_run_without_series_has_a_report_without_plots() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_run(folder.path(), 1, 5, 1);
    fs::remove_file(folder.path().join("flows.parquet")).unwrap();
    fs::remove_file(folder.path().join("links.parquet")).unwrap();
    let html = report(folder.path());
    assert!(html.contains("No time series were recorded"));
    assert!(!html.contains("<script"));
    assert!(html.len() < 20_000, "{}", html.len());
}

#[test]
fn several_seeds_have_an_overview_that_links_to_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_seeds(folder.path(), 2, 5, &[3, 4]);
    let html = report(folder.path());
    assert_eq!(
        references(&html),
        ["seed-3/report.html", "seed-4/report.html"]
    );
    assert!(html.contains("2 runs, seeds 3, 4"));
    assert!(html.contains("class=\"spread\">± "));
    assert!(folder.path().join("seed-4/report.html").is_file());
    assert!(folder.path().join("seed-4/plots/cwnd.svg").is_file());
}

#[test]
fn a_run_below_several_seeds_shows_the_experiment_of_all() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write_seeds(folder.path(), 1, 5, &[3, 4]);
    let run = folder.path().join("seed-3");
    fs::remove_file(run.join(EXPERIMENT_FILE)).unwrap();
    fs::write(folder.path().join(EXPERIMENT_FILE), "title = \"shared\"").unwrap();
    assert!(report(&run).contains("<pre>title = &quot;shared&quot;</pre>"));
}

#[test]
fn a_folder_without_a_result_has_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let error = write(folder.path()).unwrap_err().to_string();
    assert!(error.contains("no result here"), "{error}");
    assert!(!folder.path().join(REPORT_FILE).exists());
    fs::write(folder.path().join(RESULT_FILE), "{}").unwrap();
    let error = write(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("result.json: not a readable result"),
        "{error}"
    );
}

#[test]
fn reasons_to_doubt_the_numbers_stand_above_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = fixture::write_run(folder.path(), 1, 5, 1);
    run.incomplete = Some("after 2 s: the server <b> ended".into());
    run.warnings = vec!["the emulator fell behind".into()];
    run.emulator = Some(fairwind_result::EmulatorResult {
        packets: 1234,
        lateness_p99_us: 48.6,
        ..Default::default()
    });
    run.write(folder.path()).unwrap();
    let page = report(folder.path());
    assert!(page.contains("Incomplete: after 2 s: the server &lt;b&gt; ended"));
    assert!(page.contains("Warning: the emulator fell behind"));
    assert!(page.contains("1234 packets emulated, late by 0 µs (median), 49 µs (99 %)"));
}
