//! The list of congestion controls and their parameters.

use fairwind_cc::kernel::kernel_name;
use fairwind_cc::native::{all, find};
use fairwind_testing::page::{check_sections, table};

#[test]
fn controls_are_listed_by_name() {
    let names: Vec<_> = all().iter().map(|control| control.name()).collect();
    assert!(names.is_sorted());
    for name in ["cubic", "fairwind", "nocc", "reno", "sfsack"] {
        assert!(names.contains(&name), "{name}");
        assert_eq!(find(name).unwrap().name(), name);
    }
    assert_eq!(find("westwood"), None);
}

#[test]
fn generated_sections_have_all_controls_and_parameters() {
    let code = |text: &str| format!("`{text}`");
    let known = check_sections("congestion-controls.md", |section| match section.what {
        "congestion controls" => {
            let row = |control: &&fairwind_cc::native::Control| {
                let name = control.name();
                let description = control.description().to_owned();
                vec![code(name), code(&kernel_name(name)), description]
            };
            let rows: Vec<Vec<String>> = all().iter().map(row).collect();
            Some(table(&["name", "in the kernel", "what it does"], &rows))
        }
        "parameters of congestion controls" => {
            let rows = all().iter().flat_map(|control| {
                control.parameters().iter().map(|parameter| {
                    vec![
                        code(control.name()),
                        code(parameter.name()),
                        parameter.unit().to_owned(),
                        parameter.default_value().to_string(),
                        format!("{} to {}", parameter.min(), parameter.max()),
                        parameter.description().to_owned(),
                    ]
                })
            });
            let rows: Vec<Vec<String>> = rows.collect();
            let heads = [
                "congestion control",
                "parameter",
                "unit",
                "default",
                "range",
                "meaning",
            ];
            Some(table(&heads, &rows))
        }
        _ => None,
    });
    assert_eq!(known.len(), 2, "{known:?}");
}

#[test]
fn every_parameter_is_documented_and_its_default_is_in_range() {
    for control in all() {
        assert!(!control.description().is_empty());
        for parameter in control.parameters() {
            assert!(!parameter.unit().is_empty());
            assert!(!parameter.description().is_empty());
            let range = parameter.min()..=parameter.max();
            assert!(range.contains(&parameter.default_value()), "{parameter:?}");
        }
    }
}

#[test]
fn a_wrong_parameter_gets_what_would_be_right() {
    let mut sfsack = find("sfsack").unwrap().default_parameters();
    assert_eq!(
        sfsack.set("tua", 1).unwrap_err().to_string(),
        "`sfsack` has no parameter `tua`; it has tau"
    );
    assert_eq!(
        sfsack.set("tau", -5).unwrap_err().to_string(),
        "`tau` is -5 us; it must be 1000 us to 10000000 us"
    );
    let mut fairwind = find("fairwind").unwrap().default_parameters();
    assert_eq!(
        fairwind.set("belief", 102_912).unwrap_err().to_string(),
        "`belief` is 102912/1024; it must be 1/1024 to 1024/1024"
    );
    assert_eq!(
        fairwind.set("floor", 0).unwrap_err().to_string(),
        "`floor` is 0; it must be 1 to 65536"
    );
    assert_eq!(
        find("reno")
            .unwrap()
            .default_parameters()
            .set("tau", 1)
            .unwrap_err()
            .to_string(),
        "`reno` has no parameter `tau`; it has none"
    );
    assert_eq!(sfsack.get("tau"), Ok(100_000));
}
