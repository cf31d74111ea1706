//! Real connections over loopback, each test in a network namespace of its own.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::common::Seen as Event;
use crate::common::{
    connection, cookie, in_new_network_namespace, netns, privileged, program, set_control,
    wait_until, wait_until_idle,
};
use fairwind_kernel::{TcpInfo, hz};
use fairwind_trace::event::Sample;
use fairwind_trace::filter::Filter;
use fairwind_trace::instrument::{Moment, find};
use fairwind_trace::kernel::{Counts, Options, Tracer};

/// Traces only the network namespace of this thread.
fn here() -> Options {
    Options {
        filter: Filter {
            namespaces: vec![netns()],
            ..Filter::default()
        },
        ring_bytes: 1 << 20,
        ..Options::default()
    }
}

fn attach(options: &Options) -> Tracer {
    Tracer::attach(options).unwrap_or_else(|error| panic!("{error}"))
}

fn take(tracer: &Tracer) -> Vec<Event> {
    let mut events = Vec::new();
    tracer.take(|event| events.push(event.into())).unwrap();
    events
}

fn samples(events: &[Event], id: u64) -> Vec<Sample> {
    let of = |event: &Event| match event {
        Event::Sample(sample) | Event::Close(sample) if sample.head.id == id => Some(*sample),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// Cookies of the connections found, sorted, without repeats.
fn opened(events: &[Event]) -> Vec<u64> {
    let mut ids: Vec<u64> = Vec::new();
    for event in events {
        if let Event::Open(identity) = event
            && !ids.contains(&identity.head.id)
        {
            ids.push(identity.head.id);
        }
    }
    ids.sort_unstable();
    ids
}

fn sorted(mut ids: Vec<u64>) -> Vec<u64> {
    ids.sort_unstable();
    ids
}

#[test]
fn a_sample_agrees_with_tcp_info_in_every_value() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let tracer = attach(&here());
        let (mut stream, mut peer) = connection("127.0.0.1:0");
        let sender = stream.try_clone().unwrap();
        let reader = thread::spawn(move || {
            wait_until("the sender meets a full window for a while", || {
                TcpInfo::of(&sender).unwrap().tcpi_rwnd_limited > 200_000
            });
            let mut received = vec![0; 16 << 20];
            peer.read_exact(&mut received).unwrap();
            peer.write_all(&[1; 3000]).unwrap();
            peer
        });
        stream.write_all(&vec![7; 16 << 20]).unwrap();
        stream.read_exact(&mut [0; 2000]).unwrap();
        let peer = reader.join().unwrap();
        wait_until_idle(&stream);
        wait_until_idle(&peer);
        // The last thousand bytes stay unread.
        thread::sleep(Duration::from_millis(100));
        for socket in [&stream, &peer] {
            take(&tracer);
            tracer.sample().unwrap();
            let info = TcpInfo::of(socket).unwrap();
            let sample = *samples(&take(&tracer), cookie(socket)).last().unwrap();
            agree(&sample, &info);
        }
        tracer.sample().unwrap();
        let sample = *samples(&take(&tracer), cookie(&stream)).last().unwrap();
        assert_eq!(value("CurAppRQueue", &sample), Some(1000));
        // 200 ms, less a few jiffies.
        assert!(value("SndLimTimeRwin", &sample).unwrap() > 100_000);
    });
}

fn value(name: &str, sample: &Sample) -> Option<i64> {
    let moment = Moment {
        sample,
        hz: hz(),
        opened_ns: Some(0),
    };
    find(name).unwrap().value(&moment)
}

/// Compares the values that a sample and `TCP_INFO` share; the socket was idle in between.
fn agree(sample: &Sample, info: &TcpInfo) {
    let integers = [
        ("State", u64::from(info.tcpi_state)),
        ("CongestionState", u64::from(info.tcpi_ca_state)),
        ("CurTimeoutCount", u64::from(info.tcpi_retransmits)),
        ("CurRTO", u64::from(info.tcpi_rto)),
        ("CurMSS", u64::from(info.tcpi_snd_mss)),
        ("PacketsOut", u64::from(info.tcpi_unacked)),
        ("SackedOut", u64::from(info.tcpi_sacked)),
        ("LostOut", u64::from(info.tcpi_lost)),
        ("RetransOut", u64::from(info.tcpi_retrans)),
        ("SmoothedRTT", u64::from(info.tcpi_rtt)),
        (
            "CurCwnd",
            u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss),
        ),
        ("RetranThresh", u64::from(info.tcpi_reordering)),
        ("SegsRetrans", u64::from(info.tcpi_total_retrans)),
        ("HCThruOctetsAcked", info.tcpi_bytes_acked),
        ("HCThruOctetsReceived", info.tcpi_bytes_received),
        ("SegsOut", u64::from(info.tcpi_segs_out)),
        ("SegsIn", u64::from(info.tcpi_segs_in)),
        ("CurAppWQueue", u64::from(info.tcpi_notsent_bytes)),
        ("MinRTT", u64::from(info.tcpi_min_rtt)),
        ("DataSegsIn", u64::from(info.tcpi_data_segs_in)),
        ("DataSegsOut", u64::from(info.tcpi_data_segs_out)),
        ("DeliveryRate", info.tcpi_delivery_rate),
        ("SndLimTimeRwin", info.tcpi_rwnd_limited),
        ("SndLimTimeSndBuf", info.tcpi_sndbuf_limited),
        (
            "SndLimTimeCwnd",
            info.tcpi_busy_time - info.tcpi_rwnd_limited - info.tcpi_sndbuf_limited,
        ),
        ("Delivered", u64::from(info.tcpi_delivered)),
        ("ECNsignals", u64::from(info.tcpi_delivered_ce)),
        ("HCDataOctetsOut", info.tcpi_bytes_sent),
        ("OctetsRetrans", info.tcpi_bytes_retrans),
        ("DSACKDups", u64::from(info.tcpi_dsack_dups)),
        ("ReorderingSeen", u64::from(info.tcpi_reord_seen)),
        ("CurRwinRcvd", u64::from(info.tcpi_snd_wnd)),
        ("CurRwinSent", u64::from(info.tcpi_rcv_wnd)),
        ("Timeouts", u64::from(info.tcpi_total_rto)),
    ];
    for (name, expected) in integers {
        assert_eq!(value(name, sample), Some(expected as i64), "{name}");
    }
    assert_eq!(sample.snd_ssthresh, info.tcpi_snd_ssthresh);
    assert_eq!(sample.mdev_us >> 2, info.tcpi_rttvar);
    assert_eq!(sample.rcv_rtt_us >> 3, info.tcpi_rcv_rtt);
    assert_eq!(sample.pacing_rate, info.tcpi_pacing_rate);
    assert_eq!(
        sample.rto_recoveries,
        u32::from(info.tcpi_total_rto_recoveries)
    );
    assert_eq!(sample.head.lost, 0);
}

/// Sends messages one by one, each acknowledged before the next.
fn messages(stream: &mut TcpStream, peer: &mut TcpStream, count: u32) {
    for _ in 0..count {
        stream.write_all(&[1; 100]).unwrap();
        peer.read_exact(&mut [0; 100]).unwrap();
        wait_until_idle(stream);
    }
}

/// Checks that every ACK is accounted for. If the kernel skips a run, the trace must report it.
fn exact(accounted: u64, acks: u32, counts: &Counts) {
    let acks = u64::from(acks);
    let missed = counts.skipped;
    assert!(accounted <= acks, "{accounted} of {acks}");
    assert!(
        accounted + missed >= acks,
        "{accounted} and {missed} of {acks}"
    );
}

#[test]
fn every_ack_gives_one_sample() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let tracer = attach(&Options {
            every_ack: true,
            ..here()
        });
        let (mut stream, mut peer) = connection("127.0.0.1:0");
        stream.set_nodelay(true).unwrap();
        take(&tracer);
        let before = TcpInfo::of(&stream).unwrap().tcpi_segs_in;
        messages(&mut stream, &mut peer, 50);
        let acks = TcpInfo::of(&stream).unwrap().tcpi_segs_in - before;
        let events = take(&tracer);
        let samples = samples(&events, cookie(&stream));
        let counts = tracer.counts().unwrap();
        assert!(acks >= 50);
        exact(samples.len() as u64, acks, &counts);
        // Each sample shows the state that the ACK finds.
        assert!(samples.iter().all(|sample| sample.packets_out > 0));
        // The peer receives only data and has nothing to be acknowledged.
        assert!(self::samples(&events, cookie(&peer)).is_empty());
        assert_eq!(counts.lost.iter().sum::<u64>(), 0);
    });
}

#[test]
fn samples_without_room_are_counted_exactly() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let tracer = attach(&Options {
            every_ack: true,
            ring_bytes: 4096,
            ..here()
        });
        let (mut stream, mut peer) = connection("127.0.0.1:0");
        stream.set_nodelay(true).unwrap();
        take(&tracer);
        let before = TcpInfo::of(&stream).unwrap().tcpi_segs_in;
        messages(&mut stream, &mut peer, 60);
        let acks = TcpInfo::of(&stream).unwrap().tcpi_segs_in - before;
        let taken = samples(&take(&tracer), cookie(&stream)).len() as u64;
        let counts = tracer.counts().unwrap();
        let lost = counts.lost.iter().sum::<u64>();
        assert!(taken > 0 && lost > 0, "{taken} {lost}");
        exact(taken + lost, acks, &counts);
        // The connection's own count of lost events agrees.
        tracer.sample().unwrap();
        let next = samples(&take(&tracer), cookie(&stream));
        assert_eq!(u64::from(next[0].head.lost), lost);
    });
}

#[test]
fn a_beginning_without_room_is_made_up_for() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let tracer = attach(&Options {
            ring_bytes: 4096,
            ..here()
        });
        let _crowd: Vec<_> = (0..20).map(|_| connection("127.0.0.1:0")).collect();
        let late = connection("127.0.0.1:0");
        let id = cookie(&late.0);
        assert!(!opened(&take(&tracer)).contains(&id));
        // Only one of the connections finds room at a time.
        for _ in 0..50 {
            tracer.sample().unwrap();
            let events = take(&tracer);
            let first = events.iter().find(|event| event.head().id == id);
            if let Some(first) = first {
                let Event::Open(identity) = first else {
                    panic!("{first:?}");
                };
                assert!(!identity.is_adopted());
                return;
            }
        }
        panic!("it is never announced");
    });
}

#[test]
fn a_connection_is_followed_from_its_first_packet_to_its_last() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let tracer = attach(&here());
        let (mut stream, mut peer) = connection("[::1]:0");
        let ends = (stream.local_addr().unwrap(), peer.local_addr().unwrap());
        let ids = (cookie(&stream), cookie(&peer));
        stream.write_all(&[1; 5000]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        peer.read_to_end(&mut Vec::new()).unwrap();
        drop((stream, peer));
        let mut events = Vec::new();
        wait_until("both ends are closed", || {
            events.extend(take(&tracer));
            let is_end = |event: &&Event| matches!(event, Event::Close(_));
            events.iter().filter(is_end).count() == 2
        });
        let states = |id| {
            samples(&events, id)
                .iter()
                .map(|s| s.state)
                .collect::<Vec<_>>()
        };
        // SYN sent, established, FIN wait 1, FIN wait 2, closed.
        assert_eq!(states(ids.0), [2, 1, 4, 5, 7]);
        // Established, close wait, last ACK, closed.
        assert_eq!(states(ids.1), [1, 8, 9, 7]);
        let last = *samples(&events, ids.0).last().unwrap();
        // SYN, payload, FIN.
        assert_eq!(last.bytes_acked, 5002);

        let of = |id| {
            let identity = |event: &Event| match event {
                Event::Open(identity) | Event::Identity(identity) if identity.head.id == id => {
                    Some(*identity)
                }
                _ => None,
            };
            events.iter().filter_map(identity).next_back().unwrap()
        };
        let (active, passive) = (of(ids.0), of(ids.1));
        assert_eq!((active.local(), active.remote()), ends);
        assert_eq!((passive.local(), passive.remote()), (ends.1, ends.0));
        assert!(!active.is_incoming() && passive.is_incoming());
        for identity in [active, passive] {
            assert_eq!(identity.netns, netns());
            assert_eq!(identity.pid, std::process::id());
            assert_eq!(identity.program(), program());
            assert!(!identity.is_adopted());
        }
    });
}

/// As in a container, where the kernel's own process numbers mean nothing.
#[test]
fn a_process_has_the_number_that_the_tracer_knows_it_by() {
    if !privileged() {
        return;
    }
    let output = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "connections::a_connection_is_followed_from_its_first_packet_to_its_last",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn connections_that_are_there_already_are_found_in_all_networks() {
    if !privileged() {
        return;
    }
    let (stream, peer, inode) = in_new_network_namespace(|| {
        let (stream, peer) = connection("127.0.0.1:0");
        (stream, peer, netns())
    });
    let filter = Filter {
        namespaces: vec![inode],
        ..Filter::default()
    };
    // The tracer is in another network namespace than the connection.
    let tracer = attach(&Options {
        filter,
        ..Options::default()
    });
    let events = take(&tracer);
    assert_eq!(
        opened(&events),
        sorted(vec![cookie(&stream), cookie(&peer)])
    );
    let Event::Open(identity) = &events[0] else {
        panic!("{events:?}");
    };
    assert!(identity.is_adopted());
    assert_eq!(identity.netns, inode);
    assert_eq!(identity.program(), program());
    assert_ne!(inode, netns());
}

#[test]
fn filters_let_pass_what_matches_every_kind() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let one = connection("127.0.0.1:0");
        let two = connection("127.0.0.2:0");
        let ids = |pair: &(TcpStream, TcpStream)| vec![cookie(&pair.0), cookie(&pair.1)];
        let (one_ids, two_ids) = (ids(&one), ids(&two));
        let all = sorted([one_ids.clone(), two_ids.clone()].concat());
        let port = one.1.local_addr().unwrap().port();
        let none: Vec<u64> = Vec::new();
        let found = |change: &dyn Fn(&mut Filter)| {
            let mut options = here();
            change(&mut options.filter);
            opened(&take(&attach(&options)))
        };
        assert_eq!(found(&|_| {}), all);
        assert_eq!(found(&|f| f.ports = vec![port]), sorted(one_ids.clone()));
        assert_eq!(
            found(&|f| f.hosts = vec!["127.0.0.2".parse().unwrap()]),
            sorted(two_ids)
        );
        assert_eq!(
            found(&|f| f.hosts = vec!["127.0.0.0/8".parse().unwrap()]),
            all
        );
        assert_eq!(
            found(&|f| f.hosts = vec!["10.0.0.0/8".parse().unwrap()]),
            none
        );
        assert_eq!(found(&|f| f.programs = vec![program()]), all);
        assert_eq!(found(&|f| f.programs = vec!["another".into()]), none);
        assert_eq!(found(&|f| f.cgroups = vec![u64::MAX]), none);
        assert_eq!(
            found(&|f| {
                f.ports = vec![port];
                f.hosts = vec!["127.0.0.2".parse().unwrap()];
            }),
            none
        );
    });
}

#[test]
fn new_connections_are_filtered_as_old_ones_are() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut options = here();
        options.filter.ports = vec![listener.local_addr().unwrap().port()];
        options.filter.programs = vec![program()];
        let tracer = attach(&options);
        let other = connection("127.0.0.1:0");
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = listener.accept().unwrap().0;
        assert_eq!(
            opened(&take(&tracer)),
            sorted(vec![cookie(&stream), cookie(&peer)])
        );
        drop(other);
    });
}

#[test]
fn timeouts_and_a_change_of_the_congestion_control_are_seen() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let tracer = attach(&here());
        // The accept queue is full, so the SYN is dropped and sent again after a second.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: the descriptor is open.
        let failed = unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) };
        assert_eq!(failed, 0);
        let address = listener.local_addr().unwrap();
        let _waits = TcpStream::connect(address).unwrap();
        let dropped = TcpStream::connect_timeout(&address, Duration::from_millis(1400));
        assert!(dropped.is_err());
        let mut closes = Vec::new();
        wait_until("the attempt is given up", || {
            closes.extend(take(&tracer).into_iter().filter_map(|event| match event {
                Event::Close(sample) => Some(sample),
                _ => None,
            }));
            !closes.is_empty()
        });
        assert_eq!(value("Timeouts", &closes[0]), Some(1));
        assert_eq!(value("SegsRetrans", &closes[0]), Some(1));
        assert_eq!(value("SubsequentTimeouts", &closes[0]), Some(0));

        let (stream, _peer) = connection("127.0.0.1:0");
        set_control(&stream, "reno");
        tracer.sample().unwrap();
        set_control(&stream, "cubic");
        tracer.sample().unwrap();
        let names: Vec<String> = take(&tracer)
            .into_iter()
            .filter_map(|event| match event {
                Event::Control(control) if control.head.id == cookie(&stream) => {
                    Some(control.name())
                }
                _ => None,
            })
            .collect();
        let last_two = &names[names.len() - 2..];
        assert_eq!(last_two, ["reno", "cubic"]);
    });
}

#[test]
fn a_filter_may_have_many_alternatives() {
    if !privileged() {
        return;
    }
    in_new_network_namespace(|| {
        let pair = connection("127.0.0.1:0");
        let port = pair.1.local_addr().unwrap().port();
        let mut options = here();
        options.filter.ports = (1..3000).chain([port]).collect();
        options.filter.hosts = (0..200)
            .map(|n| format!("127.0.{n}.0/24").parse().unwrap())
            .collect();
        let ids = sorted(vec![cookie(&pair.0), cookie(&pair.1)]);
        assert_eq!(opened(&take(&attach(&options))), ids);
    });
}

#[test]
fn a_control_group_stands_for_all_below_it() {
    if !privileged() {
        return;
    }
    let Some(groups) = crate::common::ControlGroups::create() else {
        return;
    };
    in_new_network_namespace(move || {
        let pair = groups.within_the_inner(|| connection("127.0.0.1:0"));
        let other = connection("127.0.0.1:0");
        let ids = |pair: &(TcpStream, TcpStream)| vec![cookie(&pair.0), cookie(&pair.1)];
        let inside = sorted(ids(&pair));
        let all = sorted([ids(&pair), ids(&other)].concat());
        let found = |cgroup| {
            let mut options = here();
            options.filter.cgroups = vec![cgroup];
            opened(&take(&attach(&options)))
        };
        assert_eq!(found(groups.inner()), inside);
        assert_eq!(found(groups.outer()), inside);
        assert_eq!(found(groups.root()), all);
    });
}
