//! Which routes packets take, and which links are reported.

use std::path::Path;

use fairwind_scenario::Experiment;
use fairwind_scenario::topology::DirectedLink;

fn experiment(text: &str) -> Experiment {
    Experiment::parse(text, "x.toml", Path::new(""), &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// An experiment with links `(name, from, to, further fields)` and flows `(name, from, to)`.
fn network(links: &[(&str, &str, &str, &str)], flows: &[(&str, &str, &str)]) -> Experiment {
    let mut text = "duration = \"10s\"\n".to_owned();
    for (name, from, to, fields) in links {
        text +=
            &format!("[[link]]\nname = \"{name}\"\nbetween = [\"{from}\", \"{to}\"]\n{fields}\n");
    }
    for (name, from, to) in flows {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             congestion_control = \"reno\"\n"
        );
    }
    experiment(&text)
}

/// The names of the links on the first flow's route, in both directions.
fn ways(experiment: &Experiment) -> (Vec<String>, Vec<String>) {
    let route = &experiment.topology().routes()[0];
    let links = &experiment.file().link;
    let names = |way: &[DirectedLink]| -> Vec<String> {
        way.iter().map(|d| d.name(&links[d.link()])).collect()
    };
    (names(&route.forward), names(&route.backward))
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn nodes_come_into_being_in_the_order_in_which_links_name_them() {
    let e = network(
        &[("x", "server", "router", ""), ("y", "client", "router", "")],
        &[("one", "server", "client")],
    );
    assert_eq!(e.topology().nodes(), ["server", "router", "client"]);
}

#[test]
fn acknowledgements_take_the_same_links_backwards() {
    let e = network(
        &[("x", "server", "router", ""), ("y", "client", "router", "")],
        &[("one", "server", "client")],
    );
    assert_eq!(
        ways(&e),
        (owned(&["x", "y.reverse"]), owned(&["y", "x.reverse"]))
    );
}

#[test]
fn fewer_hops_go_before_less_delay() {
    let e = network(
        &[
            ("long1", "a", "m", "delay = \"1ms\""),
            ("long2", "m", "b", "delay = \"1ms\""),
            ("direct", "a", "b", "delay = \"500ms\""),
        ],
        &[("one", "a", "b")],
    );
    assert_eq!(ways(&e).0, ["direct"]);
}

#[test]
fn of_as_many_hops_the_least_delay_wins_in_each_direction_for_itself() {
    let e = network(
        &[
            (
                "satellite",
                "a",
                "b",
                "delay = \"250ms\"\nreverse = { delay = \"5ms\" }",
            ),
            ("cable", "a", "b", "delay = \"10ms\""),
        ],
        &[("one", "a", "b")],
    );
    assert_eq!(ways(&e), (owned(&["cable"]), owned(&["satellite.reverse"])));
}

#[test]
fn of_equal_ways_the_one_first_in_the_file_wins() {
    let e = network(
        &[
            ("first", "a", "b", "delay = \"1ms\""),
            ("second", "a", "b", "delay = \"1ms\""),
        ],
        &[("one", "a", "b")],
    );
    assert_eq!(ways(&e), (owned(&["first"]), owned(&["first.reverse"])));
}

#[test]
fn links_without_delay_make_no_loop() {
    let e = network(
        &[
            ("ab", "a", "b", ""),
            ("bc", "b", "c", ""),
            ("ca", "c", "a", ""),
            ("cd", "c", "d", ""),
        ],
        &[("one", "a", "d")],
    );
    assert_eq!(ways(&e).0, ["ca.reverse", "cd"]);
}

#[test]
fn results_tell_of_directions_that_carry_data_and_of_those_that_are_described() {
    let e = network(
        &[
            ("x", "server", "router", ""),
            (
                "y",
                "router",
                "client",
                "reverse = { bandwidth = \"1Mbit/s\" }",
            ),
            ("idle", "router", "nobody", "reverse = { delay = \"1ms\" }"),
        ],
        &[("one", "server", "client")],
    );
    let links = &e.file().link;
    let names: Vec<String> = e
        .reported_links()
        .iter()
        .map(|d| d.name(&links[d.link()]))
        .collect();
    assert_eq!(names, ["x", "y", "y.reverse"]);
}

#[test]
fn the_description_shows_nodes_links_and_ways() {
    let e = network(
        &[
            ("x", "server", "router", "bandwidth = \"100Mbit/s\""),
            (
                "y",
                "router",
                "client",
                "bandwidth = \"15Mbit/s\"\ndelay = \"10ms\"\nqueue = \"75kB\"\nloss = 0.005\n\
                 reverse = { bandwidth = \"384kbit/s\" }",
            ),
        ],
        &[("one", "server", "client")],
    );
    assert_eq!(
        e.describe(),
        "\
x
10s long, warm-up 0s, seeds 1, stack linux

nodes: server, router, client

links
  x: server <-> router, 100Mbit/s, 0s, queue 50 pkt
  y: router -> client, 15Mbit/s, 10ms, queue 75000 B, loss 0.005
  y.reverse: client -> router, 384kbit/s, 10ms, queue 75000 B, loss 0.005

flows
  one: server -> router -> client, reno, bulk, from 0s
"
    );
}

#[test]
fn a_class_of_nobody_is_noted() {
    let e = network(
        &[(
            "z",
            "server1",
            "b",
            "scheduler = { kind = \"wf2q+\", weights = { server1 = 40, server2 = 20 } }",
        )],
        &[("one", "server1", "b")],
    );
    let description = e.describe();
    assert!(
        description.ends_with(
            "\nnote: a scheduler names `server2`, but no flow and no host is called so\n"
        ),
        "{description}"
    );
}
