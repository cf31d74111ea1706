use super::*;

const HEAD: &str = "title = \"Test\"\nstudy = \"right-sizing\"\nengines = [\"lab\"]\n";

fn parse(text: &str) -> Result<Plan, Diagnostic> {
    Plan::parse(text, "plan.toml", Path::new("experiments/test"))
}

/// What is wrong with the plan, as it is printed.
fn wrong(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn runs_are_the_combinations_of_the_values() {
    let run = "[[run]]\npath = [\"95\", \"1000\"]\ntransfer = \"client-server\"\nkind = \"drs\"\nsize = [1, 8]\n";
    let plan = parse(&format!("{HEAD}{run}")).unwrap();
    let runs: Vec<_> = plan
        .runs
        .iter()
        .map(|run| (run.get("path"), run.get("size")))
        .collect();
    assert_eq!(
        runs,
        [("95", "1"), ("95", "8"), ("1000", "1"), ("1000", "8")]
    );
    assert_eq!(
        (plan.name.as_str(), plan.engines.as_slice()),
        ("test", &[Engines::Lab][..])
    );
    let only = |texts: &[&str]| {
        let filters: Vec<Filter> = texts.iter().map(|text| Filter::from(*text)).collect();
        plan.select(&filters).map(|runs| runs.len())
    };
    assert_eq!(only(&[]).unwrap(), 4);
    assert_eq!(only(&["path=95", "size=8"]).unwrap(), 1);
    let error = only(&["path=96"]).unwrap_err().to_string();
    assert!(error.contains("no run of test is path=96"), "{error}");
    assert!(error.contains("did you mean `95`?"), "{error}");
}

#[test]
fn a_wrong_value_is_shown_with_its_line_and_what_would_be_right() {
    assert_eq!(
        wrong(&format!("{HEAD}[[run]]\npath = \"95\"\nkind = \"dsr\"\n")),
        "plan.toml:6:8: \"dsr\" is not known here\n  6 | kind = \"dsr\"\n    |        ^^^^^\n  \
         help: did you mean `drs`?"
    );
    let message = wrong(&format!("{HEAD}[[run]]\nsize = 0\n"));
    assert!(
        message.starts_with("plan.toml:5:8: 0 is out of range"),
        "{message}"
    );
    assert!(
        message.contains("help: write a whole number from 1 to"),
        "{message}"
    );
}

#[test]
fn unknown_and_missing_words_are_found_together() {
    let message = wrong("titel = \"Test\"\nstudy = \"right-sizin\"\n[[run]]\nsise = 1\n");
    for expected in [
        "plan.toml:1:1: unknown field `titel` in plan",
        "did you mean `title`?",
        "plan without `engines`",
        "add engines = [\"sim\"]",
        "plan.toml:2:9: \"right-sizin\" is not known here",
        "did you mean `right-sizing`?",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let message = wrong(&format!("{HEAD}[[run]]\nsise = 1\n"));
    assert!(
        message.contains("plan.toml:5:1: unknown parameter `sise` in run"),
        "{message}"
    );
    assert!(message.contains("did you mean `size`?"), "{message}");
}

#[test]
fn an_experiment_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("figure-4.1.toml"), "").unwrap();
    let text = "title = \"T\"\nstudy = \"web100-dummynet\"\nengines = [\"sim\"]\n\
                [[run]]\nexperiment = [\"figure-4.1\", \"figure-4.7\"]\n";
    let message = Plan::parse(text, "plan.toml", folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("plan.toml:5:29: no experiment figure-4.7.toml beside the plan"),
        "{message}"
    );
    assert!(message.contains("did you mean `figure-4.1`?"), "{message}");
}

#[test]
fn a_row_or_a_figure_of_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("figure-4.1.toml"), "").unwrap();
    let text = "title = \"T\"\nstudy = \"web100-dummynet\"\nengines = [\"sim\"]\n\
                [[run]]\nexperiment = \"figure-4.1\"\n\
                [[table]]\nsection = \"a\"\nkind = \"single\"\n\
                rows = [{ run = \"figure-4.11\", cells = [] }, { cells = [] }]\n";
    let message = Plan::parse(text, "plan.toml", folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("plan.toml:9:17: no run of this plan is called figure-4.11"),
        "{message}"
    );
}

#[test]
fn a_name_that_is_no_plan_gets_the_nearest() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let error = Plan::read(&experiments, "dcc").unwrap_err().to_string();
    assert_eq!(error, "no plan is called dcc\n  help: did you mean dccs?");
    let error = Plan::read(Path::new("nowhere"), "dccs")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("nowhere: no folder of experiments"),
        "{error}"
    );
    assert!(error.contains("--experiments DIR"), "{error}");
}

#[test]
fn every_plan_of_the_repository_is_valid_and_names_all_its_experiments() {
    let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let names = names(&experiments).unwrap();
    assert_eq!(
        names,
        [
            "advised-start",
            "background",
            "bbr",
            "dccs",
            "demonstration",
            "drsftp",
            "imtcp-bg",
            "load",
            "queues",
            "random-paths",
            "validation",
            "web100-dummynet"
        ]
    );
    for name in names {
        let plan = Plan::read(&experiments, &name).unwrap_or_else(|error| panic!("{error}"));
        let mut parameters = plan.study.parameters.iter();
        if !parameters.any(|parameter| parameter.name == EXPERIMENT) {
            continue;
        }
        for there in experiments_in(&plan.folder) {
            let is_named = plan.runs.iter().any(|run| run.get(EXPERIMENT) == there);
            assert!(is_named, "{name} does not run {there}.toml");
        }
    }
}
