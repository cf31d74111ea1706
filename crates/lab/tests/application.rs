//! Applications over the emulator, on the running kernel. Needs root, as `exec.rs` does.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use fairwind_lab::application::{self, FlowOutcome, FlowPlan, SocketOptions, Switch};
use fairwind_path::units::{Bandwidth, Bytes, Duration};
use fairwind_testing::{eventually, wait_until, with_stalls};
use fairwind_workload::Application;

use crate::lab::{self, Lab, link, permitted, plan};

/// The payload's share of a packet of 1500 bytes with headers of IP and TCP and time stamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;

#[test]
fn a_bulk_transfer_delivers_every_byte_and_completes() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 5));
    let bulk = Application::Bulk {
        bytes: Some(Bytes(5_000_000)),
    };
    let outcome = lab.run_one(plan(&lab, bulk), Duration::ZERO, Duration::from_secs(4));
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.bytes, 5_000_000);
    assert_eq!(outcome.object_times.len(), 1);
    let completion = outcome.completion.unwrap().as_secs_f64();
    // 5 MB with headers take 0.83 s, and slow start some round trips of 10 ms.
    assert!(completion > 0.84, "{completion}");
    assert_eq!(outcome.active, outcome.completion.unwrap());
    assert!(outcome.packets_sent >= 3454, "{}", outcome.packets_sent);
    assert!(outcome.rtt_min.unwrap() >= Duration::from_millis(10));
}

#[test]
fn a_bulk_flow_fills_the_link_after_the_warmup() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(100, 5));
    let bulk = Application::Bulk { bytes: None };
    let (warmup, end) = (Duration::from_secs(1), Duration::from_secs(4));
    let (outcome, stalls) = with_stalls(|| lab.run_one(plan(&lab, bulk), warmup, end));
    assert_eq!(outcome.failure, None);
    assert_eq!(outcome.active, Duration::from_secs(3));
    assert_eq!(outcome.completion, None);
    assert_eq!(outcome.bytes_per_second.len(), 3);
    assert_eq!(outcome.bytes_per_second.iter().sum::<u64>(), outcome.bytes);
    let share = outcome.bytes as f64 * 8.0 / 3.0 / 100e6 / PAYLOAD_SHARE;
    // Late packets may arrive after the warm-up, or after the end.
    let late = stalls.as_secs_f64() / 3.0;
    assert!((0.9 - late..1.001 + late).contains(&share), "{share}");
    let most = (3.1 * 100e6 / 8.0 / 1500.0) as u64;
    assert!(outcome.packets_sent < most, "{}", outcome.packets_sent);
}

#[test]
fn web_objects_are_counted() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(100, 1));
    let web = Application::Web {
        sessions: 20,
        object_mean: Bytes(12_000),
        object_shape: 1.2,
        think_mean: Duration::from_millis(100),
    };
    let outcome = lab.run_one(plan(&lab, web), Duration::ZERO, Duration::from_secs(3));
    assert_eq!(outcome.failure, None);
    // Twenty sessions, each with one object after 100 ms of thinking and about 5 to 10 ms of transfer.
    assert!(
        (420..620).contains(&outcome.object_times.len()),
        "{}",
        outcome.object_times.len()
    );
    let mean = outcome.bytes / outcome.object_times.len() as u64;
    assert!((4_000..40_000).contains(&mean), "{mean}");
    assert!(outcome.packets_sent * 1448 >= outcome.bytes);
}

#[test]
fn a_seed_gives_the_objects_that_it_gives_in_the_simulator() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(100, 1));
    let web = Application::Web {
        sessions: 3,
        object_mean: Bytes(12_000),
        object_shape: 1.2,
        think_mean: Duration::from_millis(400),
    };
    let flow = FlowPlan {
        seed: 14,
        ..plan(&lab, web)
    };
    let outcome = lab.run_one(flow, Duration::ZERO, Duration::from_millis(2100));
    assert_eq!(outcome.failure, None);
    // As in the simulator's test of the same name; nothing is in flight from 0.3 s before to 0.3 s after the
    // end.
    assert_eq!((outcome.object_times.len(), outcome.bytes), (9, 30_759));
}

#[test]
fn datagrams_have_the_rate_and_the_size_asked_for() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(100, 5));
    let constant = Application::ConstantRate {
        rate: Bandwidth::from_mbps(8),
        packet: 1000,
    };
    let (warmup, end) = (Duration::from_secs(1), Duration::from_secs(3));
    let (outcome, stalls) = with_stalls(|| lab.run_one(plan(&lab, constant), warmup, end));
    assert_eq!(outcome.failure, None);
    // 8 Mbit/s are 1000 packets a second: those due at 1.000 s, 1.001 s, ... 3.000 s.
    let due = outcome.packets_sent + outcome.datagrams_skipped;
    assert!((2000..=2001).contains(&due), "{due}");
    let lost = 972 * (outcome.datagrams_skipped + outcome.datagrams_unread);
    let bytes = outcome.bytes + lost;
    // What was sent in the last 5 ms is in flight, and what was sent before the warm-up has arrived; or more,
    // if the machine was late: a packet is due each millisecond.
    let late = stalls.as_millis() as u64;
    assert!(
        (972 * (1980 - late.min(1980))..=972 * (2020 + late)).contains(&bytes),
        "{bytes}"
    );
}

#[test]
fn an_on_off_flow_sends_and_pauses_in_turns() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(20, 5));
    let on_off = Application::OnOff {
        on: Duration::from_secs(1),
        off: Duration::from_secs(1),
        random: false,
    };
    let outcome = lab.run_one(plan(&lab, on_off), Duration::ZERO, Duration::from_secs(4));
    assert_eq!(outcome.failure, None);
    let [on, off, again, off_again] = outcome.bytes_per_second[..] else {
        panic!("{:?}", outcome.bytes_per_second);
    };
    let full = (20e6 / 8.0 * PAYLOAD_SHARE) as u64;
    // A queue of 1000 packets takes 0.6 s to drain, which it does at the beginning of an off period.
    assert!(on > full / 2, "{on} of {full}");
    assert!(off < full * 7 / 10, "{off} of {full}");
    assert!(again > full / 2, "{again} of {full}");
    assert!(off_again < full * 7 / 10, "{off_again} of {full}");
}

#[test]
fn a_switch_changes_the_control_of_a_connection_that_lives() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(20, 5));
    let flow = FlowPlan {
        socket: SocketOptions {
            congestion_control: Some("cubic".to_owned()),
            ..SocketOptions::default()
        },
        switches: vec![Switch {
            at: Duration::from_secs(1),
            congestion_control: "reno".to_owned(),
        }],
        port: 5907,
        ..plan(&lab, Application::Bulk { bytes: None })
    };
    let applications = lab.applications(vec![flow], Duration::ZERO, Duration::from_secs(2));
    let mut seen = Vec::new();
    wait_until("it has switched", || {
        seen.extend(lab::controls_of_connections_to(5907));
        seen.last().is_some_and(|control| control == "reno")
    });
    seen.dedup();
    assert_eq!(seen, ["cubic", "reno"]);
    let outcome = applications.finish().remove(0);
    assert_eq!(outcome.failure, None);
    let [(at, name)] = &outcome.switched[..] else {
        panic!("{:?}", outcome.switched);
    };
    assert_eq!(name, "reno");
    assert!(
        *at >= Duration::from_secs(1) && *at < Duration::from_millis(1500),
        "{at:?}"
    );
}

#[test]
fn buffers_and_segments_are_those_asked_for() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(1000, 25));
    let flow = |port, socket| FlowPlan {
        port,
        socket,
        ..plan(&lab, Application::Bulk { bytes: None })
    };
    let by_receiver = SocketOptions {
        receive_buffer: Some(160_000),
        ..SocketOptions::default()
    };
    let by_sender = SocketOptions {
        send_buffer: Some(100_000),
        mss: Some(1000),
        ..SocketOptions::default()
    };
    let plans = vec![flow(5001, by_receiver), flow(5002, by_sender)];
    let (warmup, end) = (Duration::from_secs(1), Duration::from_secs(3));
    let ((outcomes, failures), stalls) = with_stalls(|| lab.run(plans, warmup, end));
    assert_eq!(failures, []);
    // A busy machine may delay packets past the warm-up, or past the end.
    let late = stalls.as_secs_f64() / 2.0;
    let [least, most] = [1.0 - late, 1.0 + late];
    // Five eighths of 160,000 bytes per round trip of 50 ms are 2 MB/s; the window is never exceeded.
    let rate = |outcome: &FlowOutcome| outcome.bytes as f64 / outcome.active.as_secs_f64();
    let [by_receiver, by_sender] = [rate(&outcomes[0]), rate(&outcomes[1])];
    assert!(
        (1.8e6 * least..2.02e6 * most).contains(&by_receiver),
        "{by_receiver}"
    );
    // The send buffer is at least two thirds full, and at least half of what is in it is payload; the last write may
    // exceed it.
    let write = 100_000 / 16;
    let [half_of_two_thirds, all] = [100_000 / 3, 100_000 + write].map(|bytes| bytes as f64 / 0.05);
    assert!(
        (half_of_two_thirds * least..all * most).contains(&by_sender),
        "{by_sender}"
    );
    eprintln!("receiver {by_receiver:.0}, sender {by_sender:.0} bytes a second");
    // Packets carry 1000 bytes, except for the last of a write, which the kernel sends as it is if the buffer is full
    // or an ACK comes before the next write; and what is in flight at either end of the count fits the buffer.
    let sent = outcomes[1].packets_sent * 1000;
    let last_of_writes = outcomes[1].bytes / write * 1000;
    let bytes = outcomes[1].bytes;
    assert!(
        (bytes - 100_000..=bytes + 100_000 + last_of_writes).contains(&sent),
        "{sent}"
    );
}

#[test]
fn two_thousand_web_sessions_go_on_at_the_same_time() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(1000, 5));
    let web = Application::Web {
        sessions: 2_000,
        object_mean: Bytes(10_000),
        object_shape: 2.5,
        think_mean: Duration::from_secs(2),
    };
    let outcome = lab.run_one(plan(&lab, web), Duration::ZERO, Duration::from_secs(5));
    assert_eq!(outcome.failure, None);
    // Without pauses there would be 5000.
    assert!(
        (3_500..5_300).contains(&outcome.object_times.len()),
        "{}",
        outcome.object_times.len()
    );
}

#[test]
fn a_flow_fills_a_gigabit() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(1000, 1));
    let bulk = Application::Bulk { bytes: None };
    let before = lab::processor_time();
    let outcome = lab.run_one(
        plan(&lab, bulk),
        Duration::from_secs(1),
        Duration::from_secs(3),
    );
    let used = lab::processor_time() - before;
    assert_eq!(outcome.failure, None);
    let share = outcome.bytes as f64 * 8.0 / 2.0 / 1e9 / PAYLOAD_SHARE;
    eprintln!("share {share:.3}, {used:.2} s of processor in 3 s");
    assert!((0.5..1.001).contains(&share), "{share}");
}

#[test]
fn a_port_in_use_and_a_control_that_is_not_there_are_named() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(100, 1));
    let bulk = || plan(&lab, Application::Bulk { bytes: None });
    let unknown = FlowPlan {
        port: 5002,
        socket: SocketOptions {
            congestion_control: Some("renoo".to_owned()),
            ..SocketOptions::default()
        },
        ..bulk()
    };
    let plans = vec![bulk(), bulk(), unknown];
    let (outcomes, failures) = lab.run(plans, Duration::ZERO, Duration::from_millis(300));
    assert!(outcomes[0].bytes > 0);
    assert_eq!(outcomes[0].failure, None);
    let texts: Vec<(usize, &str)> = failures.iter().map(|f| (f.flow, &*f.text)).collect();
    assert_eq!(
        texts,
        [
            (
                1,
                "listening on TCP port 5001 of host 10.0.0.2: Address already in use (os error 98)"
            ),
            (
                2,
                "the congestion control `renoo`, for a connection from 10.0.0.1 to 10.0.0.2:5002: \
                 No such file or directory (os error 2)"
            ),
        ]
    );
    assert_eq!(outcomes[1].failure.as_deref(), Some(texts[0].1));
}

fn command(
    client: impl Into<OsString>,
    server: Option<&str>,
    output: &Path,
) -> application::Command {
    application::Command {
        client: client.into(),
        server: server.map(OsString::from),
        output: output.to_owned(),
    }
}

#[test]
fn programs_see_the_devices_of_their_host_in_sys() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 5));
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("flow");
    let client = command("ls /sys/class/net /sys/fs/cgroup", None, &output);
    let flow = FlowPlan {
        port: 0,
        ..plan(&lab, client)
    };
    let outcome = lab.run_one(flow, Duration::ZERO, Duration::from_secs(3));
    assert_eq!(outcome.failure, None);
    let seen = fs::read_to_string(output.join("client.out")).unwrap();
    let here = |place: &str| {
        let entries = fs::read_dir(place).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    };
    let mut lines = seen.split_whitespace();
    let devices = lines.by_ref().take_while(|word| *word != "/sys/fs/cgroup:");
    assert_eq!(
        devices.collect::<Vec<_>>(),
        ["/sys/class/net:", "fw0", "lo"]
    );
    let mut rest: Vec<_> = lines.collect();
    rest.sort_unstable();
    assert_eq!(rest, here("/sys/fs/cgroup"));
}

#[test]
fn programs_run_and_their_output_and_bytes_are_kept() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 5));
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("flow");
    let client = lab::role::command("source {to} 3000000");
    let flow = FlowPlan {
        port: 0,
        start: Duration::from_millis(300),
        ..plan(
            &lab,
            command(client, Some(&lab::role::command("sink")), &output),
        )
    };
    // A flow of ours between the same hosts is not mistaken for the programs'.
    let bulk = plan(
        &lab,
        Application::Bulk {
            bytes: Some(Bytes(500_000)),
        },
    );
    let plans = vec![flow, bulk];
    let (outcomes, failures) = lab.run(plans, Duration::ZERO, Duration::from_secs(6));
    assert_eq!(failures, []);
    let read = |name: &str| fs::read_to_string(output.join(name)).unwrap();
    assert!(read("server.out").contains("received 3000000 bytes"));
    assert!(read("client.out").contains("sent 3000000 bytes"));
    assert_eq!(read("client.err"), "");
    assert_eq!(read("server.err"), "");
    let outcome = &outcomes[0];
    // Plus the byte that comes back.
    assert!(
        (3_000_001..=3_000_003).contains(&outcome.bytes),
        "{}",
        outcome.bytes
    );
    assert!(outcome.packets_sent >= 2072, "{}", outcome.packets_sent);
    assert!(outcome.rtt_min.unwrap() >= Duration::from_millis(10));
    let completion = outcome.completion.unwrap();
    assert!(completion > Duration::from_millis(500), "{completion:?}");
    assert!(completion < Duration::from_millis(2700), "{completion:?}");
    assert_eq!(outcome.active, completion);
    assert_eq!(outcomes[1].bytes, 500_000);
}

#[test]
fn all_that_programs_have_delivered_counts_when_a_run_is_stopped() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 5));
    let folder = tempfile::tempdir().unwrap();
    let client = lab::role::command("source {to} 3000000");
    let server = lab::role::command("sink");
    let flow = FlowPlan {
        port: 0,
        ..plan(&lab, command(client, Some(&server), folder.path()))
    };
    let applications = lab.applications(vec![flow], Duration::ZERO, Duration::from_secs(60));
    wait_until("the sink has all", || {
        let said = fs::read_to_string(folder.path().join("server.out"));
        said.is_ok_and(|said| said.contains("received 3000000 bytes"))
    });
    let outcome = applications.finish().remove(0);
    assert!(outcome.bytes >= 3_000_000, "{}", outcome.bytes);
}

#[test]
fn a_switch_reaches_the_sockets_of_programs() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(10, 5));
    let folder = tempfile::tempdir().unwrap();
    let client = lab::role::command("watched_source {to} 100000000");
    let server = lab::role::command("sink");
    let due = Duration::from_secs(3);
    let flow = FlowPlan {
        port: 0,
        switches: vec![Switch {
            at: due,
            congestion_control: "reno".to_owned(),
        }],
        ..plan(&lab, command(client, Some(&server), folder.path()))
    };
    let client_said = || fs::read_to_string(folder.path().join("client.out")).unwrap_or_default();
    let (outcome, stalls) = with_stalls(|| {
        let applications = lab.applications(vec![flow], Duration::ZERO, Duration::from_secs(60));
        // For a second at least, however late the client has begun: it tells ten times a second.
        wait_until("the client has the other control", || {
            client_said().matches("control reno").count() >= 10
        });
        applications.finish().remove(0)
    });
    let out = client_said();
    let controls = out.lines().filter(|line| line.contains("control "));
    let controls: Vec<&str> = controls
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert_eq!(controls.first(), Some(&"cubic"), "{out}");
    assert_eq!(controls.last(), Some(&"reno"), "{out}");
    assert_eq!(outcome.failure, None);
    assert!(outcome.bytes > 500_000, "{}", outcome.bytes);
    assert_eq!(outcome.completion, None);
    let [(at, name)] = &outcome.switched[..] else {
        panic!("{:?}", outcome.switched);
    };
    assert_eq!(name, "reno");
    let late = std::time::Duration::from_nanos((*at - due).as_nanos());
    assert!(
        late < stalls + std::time::Duration::from_millis(700),
        "{at:?}"
    );
}

#[test]
fn programs_that_fail_are_named() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 1));
    let folder = tempfile::tempdir().unwrap();
    let output = |name: &str| folder.path().join(name);
    let flow = |client: &str, server: Option<&str>, name: &str| FlowPlan {
        port: 0,
        ..plan(&lab, command(client, server, &output(name)))
    };
    let serves = lab::role::command("sink");
    let number = output("server.pid");
    let plans = vec![
        flow("exit 3", None, "code"),
        flow("fairwind-no-such-program", None, "missing"),
        flow("true", Some("echo port in use >&2; exit 1"), "early"),
        flow(
            &format!("kill $(cat {}); sleep 1", number.display()),
            Some(&format!("echo $$ >{}; {serves}", number.display())),
            "late",
        ),
        flow("echo done", None, "fine"),
    ];
    // A busy machine may need more than a second to start all these programs.
    let (outcomes, failures) = lab.run(plans, Duration::ZERO, Duration::from_secs(6));
    let text = |flow: usize| {
        let failure = failures.iter().find(|failure| failure.flow == flow);
        failure
            .map(|failure| failure.text.clone())
            .unwrap_or_default()
    };
    assert_eq!(text(0), "the client `exit 3` ended with exit code 3");
    let missing =
        "the client `fairwind-no-such-program` ended with exit code 127 (no such program): ";
    assert!(text(1).starts_with(missing), "{}", text(1));
    assert!(text(1).ends_with("not found"), "{}", text(1));
    assert_eq!(
        text(2),
        "the server `echo port in use >&2; exit 1` ended with exit code 1 before it listened: port \
         in use"
    );
    assert!(text(3).starts_with("the server `"), "{}", text(3));
    assert!(
        text(3).contains("` ended with exit code 143 before the client"),
        "{}",
        text(3)
    );
    assert_eq!(text(4), "");
    assert!(outcomes[4].completion.is_some());
    assert_eq!(outcomes[0].completion, None);
}

#[test]
fn programs_that_do_not_want_to_end_are_gone_when_the_run_is() {
    if !permitted() {
        return;
    }
    let lab = Lab::start(link(50, 1));
    let folder = tempfile::tempdir().unwrap();
    let mark = format!("85{}.5", std::process::id());
    let client = format!("trap '' TERM; sleep {mark} & while true; do sleep {mark}; done");
    let flow = FlowPlan {
        port: 0,
        ..plan(&lab, command(client, None, folder.path()))
    };
    let applications = lab.applications(vec![flow], Duration::ZERO, Duration::from_millis(500));
    assert!(eventually(|| lab::processes_with(&mark) == 2));
    let asked = Instant::now();
    let outcome = applications.finish().remove(0);
    assert!(asked.elapsed().as_secs_f64() < 3.0, "{:?}", asked.elapsed());
    assert_eq!(outcome.failure, None);
    assert_eq!(lab::processes_with(&mark), 0);
}

#[test]
fn programs_do_not_outlive_a_lab_that_is_killed() {
    if !permitted() {
        return;
    }
    let mark = format!("84{}.5", std::process::id());
    let mut lab = Command::new("/bin/sh")
        .args(["-c", &lab::role::command(&format!("lab {mark}"))])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(eventually(|| lab::processes_with(&mark) == 2));
    lab.kill().unwrap();
    lab.wait().unwrap();
    assert!(eventually(|| lab::processes_with(&mark) == 0));
}
