//! Which routes packets take, which class they have, and which links are reported.

use std::path::Path;

use fairwind_experiment::Experiment;
use fairwind_experiment::engine::sim;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::scheduler::SchedulerConfig;

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
    let names = |way: &[fairwind_experiment::topology::DirectedLink]| {
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

const CLASSES: &str =
    "scheduler = { kind = \"wf2q+\", weights = { two = 7, server1 = 40, client = 5 } }";

#[test]
fn a_class_is_found_by_flow_then_by_source_then_by_destination() {
    let e = network(
        &[
            ("x", "server1", "router", ""),
            ("y", "server2", "router", ""),
            ("z", "router", "client", CLASSES),
            ("w", "router", "other", ""),
        ],
        &[
            ("one", "server1", "client"),
            ("two", "server1", "client"),
            ("three", "server2", "client"),
        ],
    );
    let scenario = sim::scenario(&e, 1, false).unwrap();
    let z = 4;
    let class_of = |flow: usize| {
        let flow = &scenario.flows[flow];
        let class = |hops: &[fairwind_sim::scenario::Hop], pipe| {
            hops.iter().find(|hop| hop.pipe == pipe).unwrap().class
        };
        (class(&flow.forward, z), class(&flow.backward, z + 1))
    };
    // Data of `one` comes from server1, its acknowledgements from client.
    assert_eq!(class_of(0), (1, 2));
    // `two` is named itself.
    assert_eq!(class_of(1), (0, 0));
    // server2 is not named, but client is.
    assert_eq!(class_of(2), (2, 2));
    assert_eq!(
        scenario.pipes[z as usize].scheduler,
        SchedulerConfig::Wf2q {
            weights: vec![7, 40, 5, 1]
        }
    );
}

#[test]
fn whoever_is_not_named_has_the_last_class() {
    let e = network(
        &[(
            "z",
            "a",
            "b",
            "scheduler = { kind = \"priority\", order = [\"two\"] }",
        )],
        &[("one", "a", "b"), ("two", "a", "b")],
    );
    let scenario = sim::scenario(&e, 1, false).unwrap();
    assert_eq!(scenario.flows[0].forward[0].class, 1);
    assert_eq!(scenario.flows[1].forward[0].class, 0);
    assert_eq!(
        scenario.pipes[0].scheduler,
        SchedulerConfig::StrictPriority { classes: 2 }
    );
}

#[test]
fn a_link_becomes_two_pipes_in_the_order_of_the_file() {
    let e = network(
        &[
            ("x", "a", "b", ""),
            (
                "y",
                "b",
                "c",
                "bandwidth = \"1Mbit/s\"\nqueue = \"9kB\"\nreverse = { queue = \"7pkt\" }",
            ),
        ],
        &[("one", "a", "c")],
    );
    let pipes = sim::scenario(&e, 1, false).unwrap().pipes;
    let capacities: Vec<Capacity> = pipes
        .iter()
        .map(|pipe: &PipeConfig| pipe.capacity)
        .collect();
    assert_eq!(
        capacities,
        [
            Capacity::Unlimited,
            Capacity::Unlimited,
            Capacity::Bytes(9_000),
            Capacity::Packets(7),
        ]
    );
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
