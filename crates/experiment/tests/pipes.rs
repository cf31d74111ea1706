//! Which pipes the simulator makes of links, and which class of them packets have.

use std::path::Path;

use fairwind_experiment::engine::sim;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_scenario::Experiment;
use fairwind_sim::scenario::Hop;

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
        let class = |hops: &[Hop], pipe| hops.iter().find(|hop| hop.pipe == pipe).unwrap().class;
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
