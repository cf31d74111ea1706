//! Commands behind paths, on the running kernel.
//!
//! Needs root. The programs in the hosts are this binary in another role. The tests tolerate a busy
//! machine: they check that nothing is early, not that nothing is late.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::role;
use fairwind_cc::kernel::{Choice, LoadError};
use fairwind_lab::exec::{self, ExecConfig, ExecOutcome, Peer};
use fairwind_lab::host::Offload;
use fairwind_lab::{LabError, privilege};
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{self, Bandwidth};
use fairwind_testing::{eventually, permitted};

fn path(mbps: u64, delay_ms: u64) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(mbps)),
        delay: DelayConfig {
            base: Delay::Constant(units::Duration::from_millis(delay_ms)),
            ..DelayConfig::default()
        },
        capacity: Capacity::Packets(1_000),
        ..PipeConfig::default()
    }
}

fn shell(text: &str) -> Vec<OsString> {
    ["/bin/sh", "-c", text].map(OsString::from).into()
}

fn config(path: PipeConfig, command: &str) -> ExecConfig {
    ExecConfig {
        congestion_control: Some(Choice::Named("reno".into())),
        ..ExecConfig::new(path, shell(command))
    }
}

fn run(config: &ExecConfig) -> ExecOutcome {
    exec::run(config).unwrap()
}

#[test]
fn the_first_process_is_no_copy_of_this_one_and_has_nothing_of_the_emulator() {
    if !permitted(privilege::check()) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!(
        "{{ tr '\\0' ' ' </proc/1/cmdline; ls -l /proc/1/fd /proc/self/fd; }} >{}",
        file.path().display()
    );
    let outcome = run(&config(path(10, 1), &script));
    assert_eq!(outcome.exit_code, 0);
    let seen = fs::read_to_string(file.path()).unwrap();
    assert!(seen.starts_with("fairwind-first-process "), "{seen}");
    for not_theirs in ["/dev/net/tun", "anon_inode:bpf", "anon_inode:[io_uring]"] {
        assert!(!seen.contains(not_theirs), "{seen}");
    }
}

#[test]
fn words_of_any_bytes_and_length_reach_the_command() {
    if !permitted(privilege::check()) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let script = format!("printf %s \"$0\" >{}", file.path().display());
    // As JSON more than a pipe holds.
    let word = b"\xff \"\n".repeat(25_000);
    let mut config = config(path(10, 1), &script);
    config.command.push(OsString::from_vec(word.clone()));
    assert_eq!(run(&config).exit_code, 0);
    assert!(fs::read(file.path()).unwrap() == word);
}

#[test]
fn no_packet_arrives_early_or_out_of_order() {
    if !permitted(privilege::check()) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let server = role::command("datagram_sink", &[file.path().to_str().unwrap()]);
    let source = role::command("datagram_source", &["{peer}", "200", "972", "50"]);
    let outcome = run(&ExecConfig {
        peer: Peer::serving(server),
        ..config(path(10, 5), &source)
    });
    assert_eq!(outcome.exit_code, 0);
    // 972 bytes, 8 of UDP, 20 of IP: 1000 bytes, which take 800 us at 10 Mbit/s.
    let arrivals = role::arrivals(file.path());
    assert_eq!(arrivals.len(), 200);
    let first_sent = arrivals[0].sent_ns;
    for (number, arrival) in (0u64..).zip(&arrivals) {
        assert_eq!(arrival.number, number);
        let own = arrival.sent_ns + 5_000_000 + 800_000;
        assert!(arrival.received_ns >= own, "{number}");
        let behind_the_others = first_sent + 5_000_000 + 800_000 * (number + 1);
        assert!(arrival.received_ns >= behind_the_others, "{number}");
    }
    assert_eq!(outcome.statistics.pipes[0].statistics.packets, 200);
    assert_eq!(outcome.statistics.lateness.count(), 200);
}

const OFFLOADS: [Offload; 4] = [
    Offload::Software,
    Offload::None,
    Offload::Send,
    Offload::Both,
];

#[test]
fn connections_deliver_every_byte_whoever_cuts_the_segments() {
    if !permitted(privilege::check()) {
        return;
    }
    for offload in OFFLOADS {
        let file = tempfile::NamedTempFile::new().unwrap();
        let server = role::command("stream_sink", &[file.path().to_str().unwrap()]);
        let source = role::command("stream_source", &["{peer}", "5000000"]);
        let lossy = PipeConfig {
            loss: LossConfig::Bernoulli(0.005),
            ..path(100, 2)
        };
        let outcome = run(&ExecConfig {
            offload,
            peer: Peer::serving(server),
            ..config(lossy, &source)
        });
        assert_eq!(outcome.exit_code, 0, "{offload:?}");
        let received = fs::read_to_string(file.path()).unwrap();
        assert_eq!(received, role::stream_digest(5_000_000), "{offload:?}");
        let there = &outcome.statistics.pipes[0].statistics;
        // 5,000,000 bytes are at least 3454 segments of 1448, none larger than the MTU.
        assert!(there.packets >= 3454, "{offload:?}: {}", there.packets);
        assert!(there.bytes <= there.packets * 1500, "{offload:?}");
        assert!(there.random_losses > 0, "{offload:?}");
    }
}

/// Denies these system calls to the calling thread and to whatever it starts.
fn forbid(calls: &[libc::c_long]) {
    let code = |class: u32, jt, k| libc::sock_filter {
        code: class as u16,
        jt,
        jf: u8::from(jt == 0 && class & libc::BPF_JMP != 0),
        k,
    };
    let mut filter = vec![code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for &call in calls {
        filter.push(code(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            call as u32,
        ));
        let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        filter.push(code(libc::BPF_RET | libc::BPF_K, 0, refused));
    }
    filter.push(code(
        libc::BPF_RET | libc::BPF_K,
        0,
        libc::SECCOMP_RET_ALLOW,
    ));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its instructions outlive the call.
    let refused = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &program) };
    assert_eq!(refused, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn devices_are_read_where_the_kernel_refuses_the_filter_and_one_by_one_without_io_uring() {
    if !permitted(privilege::check()) {
        return;
    }
    let refused: [&'static [libc::c_long]; 2] =
        [&[libc::SYS_bpf], &[libc::SYS_bpf, libc::SYS_io_uring_setup]];
    for calls in refused {
        for offload in OFFLOADS {
            let file = tempfile::NamedTempFile::new().unwrap();
            let server = role::command("stream_sink", &[file.path().to_str().unwrap()]);
            let source = role::command("stream_source", &["{peer}", "5000000"]);
            // With the filter, the device would have dropped all of them.
            let sent = "awk '$1 == \"fw0:\" { exit !($11 > 100 && $13 == 0) }' /proc/net/dev";
            let config = ExecConfig {
                offload,
                peer: Peer::serving(server),
                ..config(path(100, 2), &format!("{source} && {sent}"))
            };
            let work = move || {
                forbid(calls);
                run(&config)
            };
            let outcome = std::thread::spawn(work).join().unwrap();
            assert_eq!(outcome.exit_code, 0, "{offload:?}");
            let received = fs::read_to_string(file.path()).unwrap();
            assert_eq!(received, role::stream_digest(5_000_000), "{offload:?}");
            let there = &outcome.statistics.pipes[0].statistics;
            assert!(there.packets >= 3454, "{offload:?}: {}", there.packets);
        }
    }
}

#[test]
fn the_share_of_packets_lost_is_the_one_asked_for() {
    if !permitted(privilege::check()) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let server = role::command("datagram_sink", &[file.path().to_str().unwrap()]);
    let source = role::command("datagram_source", &["{peer}", "20000", "16", "20"]);
    let lossy = PipeConfig {
        loss: LossConfig::Bernoulli(0.1),
        ..PipeConfig::default()
    };
    let outcome = run(&ExecConfig {
        peer: Peer::serving(server),
        ..config(lossy, &source)
    });
    let there = &outcome.statistics.pipes[0].statistics;
    assert_eq!(
        there.arrived + outcome.statistics.mishaps.device_drops,
        20_000
    );
    // Five standard deviations of 20,000 draws: 5 sqrt(0.1 x 0.9 / 20,000) = 0.0106.
    let share = there.random_losses as f64 / there.arrived as f64;
    assert!((share - 0.1).abs() < 0.0106, "{share}");
    let arrived = role::arrivals(file.path()).len() as u64;
    assert!(arrived <= there.packets);
}

#[test]
fn a_full_queue_drops_what_does_not_fit() {
    if !permitted(privilege::check()) {
        return;
    }
    // About 200 packets in 20 ms into a queue of 10 that sends one every 80 ms.
    let narrow = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_bps(100_000)),
        capacity: Capacity::Packets(10),
        ..PipeConfig::default()
    };
    let source = role::command("datagram_source", &["{peer}", "200", "972", "20"]);
    let outcome = run(&config(narrow, &source));
    let there = &outcome.statistics.pipes[0].statistics;
    assert_eq!(there.arrived, 200);
    assert_eq!(there.queue_max_pkts, 10);
    assert!(there.drops >= 100, "{}", there.drops);
}

#[test]
fn the_exit_code_is_the_commands() {
    if !permitted(privilege::check()) {
        return;
    }
    let ends = |command: &str| run(&config(PipeConfig::default(), command)).exit_code;
    assert_eq!(ends("exit 7"), 7);
    assert_eq!(ends("kill -9 $$"), 137);
}

#[test]
fn programs_that_do_not_start_are_named() {
    if !permitted(privilege::check()) {
        return;
    }
    let missing = ExecConfig {
        command: vec!["fairwind-no-such-program".into()],
        ..config(PipeConfig::default(), "")
    };
    assert_eq!(
        exec::run(&missing).unwrap_err().to_string(),
        "fairwind-no-such-program: no such program"
    );
    let failing = ExecConfig {
        peer: Peer::serving("exit 3"),
        ..config(PipeConfig::default(), "true")
    };
    assert_eq!(
        exec::run(&failing).unwrap_err().to_string(),
        "the server `exit 3` ended with exit code 3 before it listened"
    );
}

#[test]
fn a_host_has_loopback_and_the_path_and_nothing_else() {
    if !permitted(privilege::check()) {
        return;
    }
    // Two header lines, and one per interface.
    let only_two = "test $(wc -l < /proc/net/dev) = 4 && grep -q ' lo:' /proc/net/dev \
                    && grep -q ' fw0:' /proc/net/dev && test $FAIRWIND_PEER = {peer}";
    let outcome = run(&config(PipeConfig::default(), only_two));
    assert_eq!(outcome.exit_code, 0);
}

#[test]
fn connections_have_the_congestion_control_asked_for() {
    if !permitted(privilege::check()) {
        return;
    }
    for (asked, kernel) in [
        ("cubic", "cubic"),
        ("reno", "reno"),
        ("sfsack", "fw_sfsack_*"),
    ] {
        let file = tempfile::NamedTempFile::new().unwrap();
        let server = role::command("stream_sink", &[file.path().to_str().unwrap()]);
        let outcome = exec::run(&ExecConfig {
            congestion_control: Some(Choice::Named(asked.into())),
            peer: Peer::serving(server),
            ..config(
                path(100, 1),
                &role::command("control_of_connection", &["{peer}", kernel]),
            )
        });
        assert_eq!(outcome.unwrap().exit_code, 0, "{asked}");
    }
    let unknown = exec::run(&ExecConfig {
        congestion_control: Some(Choice::Named("renoo".into())),
        ..config(path(100, 1), "true")
    });
    let error = unknown.unwrap_err();
    assert!(
        matches!(error, LabError::Control(LoadError::Unknown { .. })),
        "{error}"
    );
}

#[test]
fn copies_of_a_control_have_their_own_parameters_and_leave_with_the_run() {
    if !permitted(privilege::check()) {
        return;
    }
    let own = fairwind_cc::native::find("sfsack").unwrap();
    let mut parameters = own.default_parameters();
    parameters.set("tau", 50_000).unwrap();
    let control = Choice::Own(parameters);
    let copies = || {
        let names = fairwind_cc::kernel::available().unwrap();
        let is_copy = |name: &String| name.starts_with("fw_sfsack_");
        names.into_iter().filter(is_copy).collect::<BTreeSet<_>>()
    };
    // Other labs on this machine may have some.
    let others = copies();
    // Two at once.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let file = tempfile::NamedTempFile::new().unwrap();
                let server = role::command("stream_sink", &[file.path().to_str().unwrap()]);
                let client = role::command("control_of_connection", &["{peer}", "fw_sfsack_*"]);
                let outcome = run(&ExecConfig {
                    congestion_control: Some(control.clone()),
                    peer: Peer::serving(server),
                    ..config(path(100, 1), &client)
                });
                assert_eq!(outcome.exit_code, 0);
            });
        }
    });
    // Another test may have one at this moment.
    assert!(eventually(|| copies().is_subset(&others)));
}

#[test]
fn the_way_there_and_the_way_back_may_be_captured() {
    if !permitted(privilege::check()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = ["there", "back"].map(|name| folder.path().join(name));
    let source = role::command("datagram_source", &["{peer}", "5", "972", "50"]);
    let outcome = run(&ExecConfig {
        capture: Some(files.clone()),
        ..config(path(10, 1), &source)
    });
    let packets: Vec<u64> = outcome
        .statistics
        .captures
        .iter()
        .map(|capture| capture.packets)
        .collect();
    // The datagrams, and the peer's ICMP answers that nothing receives them.
    assert_eq!(packets[0], 5);
    assert!((1..=5).contains(&packets[1]), "{packets:?}");
    for file in files {
        let bytes = fs::read(file).unwrap();
        assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    }
}

#[test]
fn this_machine_may_be_at_the_other_end() {
    if !permitted(privilege::check()) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let role = role::command("machine_receives", &[file.path().to_str().unwrap()]);
    assert!(lab_process(&role).wait().unwrap().success());
    let received = fs::read_to_string(file.path()).unwrap();
    assert_eq!(received, role::stream_digest(300_000));
}

#[test]
fn this_machine_keeps_no_device_of_a_lab_that_is_killed() {
    if !permitted(privilege::check()) {
        return;
    }
    // The machine of this test is a separate network namespace.
    std::thread::spawn(|| {
        // SAFETY: the call takes a number only, and moves this thread alone.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let before = role::network_of_thread();
        let mark = format!("88{}.5", std::process::id());
        let role = role::command("lab_of_machine", &[&two_sleepers(&mark)]);
        // Two at once, each with its own device and addresses.
        let mut labs = [lab_process(&role), lab_process(&role)];
        assert!(eventually(|| marked(&format!("sleep\0{mark}")).len() == 4));
        let now = role::network_of_thread();
        for part in [
            "fw0",
            "fw1",
            "10.77.0.1",
            "10.77.0.2",
            "10.77.1.1",
            "10.77.1.2",
        ] {
            assert!(now.contains(part), "{part} is not in {now}");
        }
        for lab in &mut labs {
            lab.kill().unwrap();
            lab.wait().unwrap();
        }
        assert!(eventually(|| role::network_of_thread() == before));
        assert!(eventually(|| marked(&mark).is_empty()));
    })
    .join()
    .unwrap();
}

/// A process in a role that makes a lab.
fn lab_process(role: &str) -> Child {
    Command::new("/bin/sh")
        .args(["-c", role])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A command line of two processes that the mark identifies.
fn two_sleepers(mark: &str) -> String {
    format!("sleep {mark} & sleep {mark}")
}

/// True if both run.
fn both_sleep(mark: &str) -> bool {
    marked(&format!("sleep\0{mark}")).len() == 2
}

/// Processes with the mark in their command line.
fn marked(mark: &str) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let line = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
        line.is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
    })
    .collect()
}

#[test]
fn nothing_outlives_a_lab_that_is_killed_at_any_moment() {
    if !permitted(privilege::check()) {
        return;
    }
    let mark = format!("86{}.5", std::process::id());
    for round in 0..10u64 {
        let mut lab = lab_process(&role::command("lab", &[&two_sleepers(&mark)]));
        if round == 9 {
            // At least once while everything runs.
            assert!(eventually(|| both_sleep(&mark)));
        } else {
            std::thread::sleep(Duration::from_millis(round * round * 4));
        }
        lab.kill().unwrap();
        lab.wait().unwrap();
        assert!(
            eventually(|| marked(&mark).is_empty()),
            "left after round {round}: {:?}",
            marked(&mark)
        );
    }
}

#[test]
fn a_signal_to_the_lab_goes_to_the_command() {
    if !permitted(privilege::check()) {
        return;
    }
    let mark = format!("87{}.5", std::process::id());
    let pid_file = tempfile::NamedTempFile::new().unwrap();
    let words = [pid_file.path().to_str().unwrap(), &two_sleepers(&mark)];
    let mut lab = lab_process(&role::command("lab_of_one_thread", &words));
    assert!(eventually(|| both_sleep(&mark)));
    let pid = fs::read_to_string(pid_file.path()).unwrap();
    let kill = Command::new("/bin/sh")
        .args(["-c", &format!("kill -TERM {pid}")])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(lab.wait().unwrap().code(), Some(143));
    assert!(eventually(|| marked(&mark).is_empty()));
}
