use fairwind_result::RunResult;

use super::*;
use crate::tests::fixture;

/// The overlay of two made-up runs, the folder that holds it, and its page.
fn laid_over(write: impl Fn(&Path, &Path)) -> (tempfile::TempDir, Overlay, String) {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    write(&a, &b);
    let overlay = super::write(&a, &b, &folder.path().join("out")).unwrap();
    let page = fs::read_to_string(&overlay.page).unwrap();
    (folder, overlay, page)
}

fn svg(overlay: &Overlay, name: &str) -> String {
    let path = overlay.figures.iter().find(|path| path.ends_with(name));
    fs::read_to_string(path.unwrap()).unwrap()
}

/// Gives a stored run another engine.
fn of_engine(folder: &Path, engine: &str) {
    let mut run = RunResult::read(folder).unwrap();
    run.engine = engine.into();
    run.write(folder).unwrap();
}

#[test]
fn every_figure_has_both_results_and_the_page_has_every_figure() {
    let (_folder, overlay, page) = laid_over(|a, b| {
        fixture::write_run(a, 2, 30, 1);
        fixture::write_run(b, 2, 30, 2);
        of_engine(b, "lab");
    });
    let names: Vec<&str> = overlay
        .figures
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "throughput.svg",
            "average_throughput.svg",
            "cwnd.svg",
            "rtt.svg",
            "rto.svg",
            "queue.svg",
            "throughput_distribution.svg",
            "cwnd_distribution.svg",
            "rtt_distribution.svg",
            "queue_distribution.svg",
        ]
    );
    for name in names {
        let svg = svg(&overlay, name);
        assert!(svg.contains(">A: simulator<"), "{name}");
        assert!(svg.contains(">B: lab, the kernel<"), "{name}");
        assert!(!svg.contains("NaN"), "{name}");
        assert!(svg.len() < 150_000, "{name}: {}", svg.len());
        assert!(page.contains(&svg), "{name}");
    }
    // A solid in the first colour, B dashed in the second; a panel each for two flows.
    let throughput = svg(&overlay, "throughput.svg");
    assert_eq!(throughput.matches("<polyline class=\"c0\"").count(), 2);
    let dashed = "<polyline class=\"c1\" stroke=\"#d55e00\" stroke-width=\"1.6\" \
                  stroke-dasharray=\"5 2.5\"";
    assert_eq!(throughput.matches(dashed).count(), 2);
    assert!(throughput.contains(">flow 2<"));
    // Only the bottleneck's queue is worth drawing.
    assert!(!svg(&overlay, "queue.svg").contains("bottleneck reverse"));
}

#[test]
fn the_same_result_twice_is_nowhere_apart() {
    let (_folder, overlay, _) = laid_over(|a, b| {
        fixture::write_run(a, 1, 30, 1);
        fixture::write_run(b, 1, 30, 1);
    });
    let quantities: Vec<&str> = overlay.distributions.iter().map(|s| s.quantity).collect();
    assert_eq!(
        quantities,
        [
            "throughput_mbps",
            "cwnd_kb",
            "rtt_ms",
            "queue_pkts",
            "queue_pkts"
        ]
    );
    for spread in &overlay.distributions {
        assert_eq!(spread.distance, 0.0, "{spread:?}");
        assert_eq!(spread.a, spread.b);
        assert!(spread.a.p5 <= spread.a.median && spread.a.median <= spread.a.p95);
    }
}

#[test]
fn several_seeds_lie_beside_one_run() {
    let (_folder, overlay, page) = laid_over(|a, b| {
        fixture::write_seeds(a, 1, 30, &[3, 4, 5]);
        fixture::write_run(b, 1, 30, 4);
    });
    assert!(svg(&overlay, "cwnd.svg").contains("; seed 4<"));
    let average = svg(&overlay, "average_throughput.svg");
    assert_eq!(average.matches("<polygon").count(), 1);
    assert!(page.contains("seeds 3 to 5"));
}

#[test]
fn the_page_refers_to_nothing_outside_and_markup_stays_text() {
    let hostile = "</title><script>alert('1')</script>";
    let (_folder, _, page) = laid_over(|a, b| {
        for folder in [a, b] {
            let mut run = fixture::write_run(folder, 1, 5, 1);
            run.title = hostile.into();
            run.stack = format!("{hostile}{}", folder.display());
            run.write(folder).unwrap();
        }
    });
    assert!(!page.contains("<script"));
    assert!(page.contains("alert(&#39;1&#39;)"));
    let inside = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for reference in ["http:", "https:", "url(", "href", "src=", "@import"] {
        assert!(!inside.contains(reference), "{reference}");
    }
}

#[test]
fn without_time_series_there_are_tables_but_no_figures() {
    let (_folder, overlay, page) = laid_over(|a, b| {
        fixture::write_run(a, 1, 5, 1);
        fixture::write_run(b, 1, 5, 2);
        fs::remove_file(b.join("flows.parquet")).unwrap();
    });
    assert_eq!(overlay.figures, Vec::<PathBuf>::new());
    assert!(page.contains("B: b: no time series were recorded"));
    assert!(page.contains("goodput_mbps"));
}

#[test]
fn an_earlier_comparison_is_replaced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (a, out) = (folder.path().join("a"), folder.path().join("out"));
    fs::create_dir(&a).unwrap();
    fixture::write_run(&a, 1, 5, 1);
    super::write(&a, &a, &out).unwrap();
    for file in ["flows.parquet", "links.parquet"] {
        fs::remove_file(a.join(file)).unwrap();
    }
    super::write(&a, &a, &out).unwrap();
    assert!(
        !out.join("cwnd.svg").exists(),
        "a figure of the earlier one"
    );
    let error = super::write(&a, &a, &a).unwrap_err().to_string();
    assert!(error.contains("holds no comparison"), "{error}");
}

#[test]
fn the_same_results_give_the_same_page() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    fixture::write_run(&a, 2, 30, 1);
    fixture::write_seeds(&b, 2, 30, &[1, 2]);
    let page = |out: &str| {
        let overlay = super::write(&a, &b, &folder.path().join(out)).unwrap();
        fs::read_to_string(overlay.page).unwrap()
    };
    assert_eq!(page("one"), page("two"));
}
