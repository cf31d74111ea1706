use super::*;
use crate::tests::fixture;

#[test]
fn every_plot_has_its_curves_axes_and_names() {
    let (run, curves) = fixture::curves(2, 30);
    let svgs = svgs(&run, &curves);
    let names: Vec<&str> = svgs.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "throughput.svg",
            "average_throughput.svg",
            "cwnd.svg",
            "rtt.svg",
            "queue.svg"
        ]
    );
    for (name, svg) in &svgs {
        assert!(svg.contains("Time (s)"), "{name}");
        assert!(svg.contains("<polyline"), "{name}");
        assert!(!svg.contains("NaN"), "{name}");
    }
    assert!(svgs[0].1.contains(">flow 2<"));
    assert!(svgs[4].1.contains(">bottleneck<"));
}

#[test]
fn markup_in_names_stays_text() {
    let (mut run, mut curves) = fixture::curves(1, 30);
    run.title = "</title><script>alert(1)</script>".into();
    curves.flows[0].name = "<b>\u{1b}&".into();
    for (name, svg) in svgs(&run, &curves) {
        assert!(!svg.contains("<script"), "{name}");
        assert!(!svg.contains("<b>"), "{name}");
        assert!(!svg.contains('\u{1b}'), "{name}");
    }
}

#[test]
fn a_plot_refers_to_nothing_outside() {
    let (run, curves) = fixture::curves(1, 30);
    for (name, svg) in svgs(&run, &curves) {
        let inside = svg.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        assert!(!inside.contains("http"), "{name}");
        assert!(!inside.contains("url("), "{name}");
        assert!(!inside.contains("href"), "{name}");
    }
}

#[test]
fn a_run_of_no_flows_has_empty_plots() {
    let (mut run, mut curves) = fixture::curves(1, 30);
    run.flows.clear();
    curves.flows.clear();
    curves.links.clear();
    for (_, svg) in svgs(&run, &curves) {
        assert!(svg.ends_with("</svg>\n"));
        assert!(!svg.contains("<polyline"));
    }
}
