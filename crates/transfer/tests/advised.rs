//! Advice applied to live loopback connections, with advisors of every kind.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_cc::{kernel, native};
use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{free_address, or_skip, permitted, root, wait_until, with_stalls};
use fairwind_transfer::advised::{Event, Follower, Setting};
use fairwind_transfer::{Direction, TransferWatcher};
use rustix::net::sockopt::tcp_congestion;
use serde_json::json;
use socket2::SockRef;

use crate::common::{follow, transfer};

/// A short time until the next question, seconds.
const SOON: f64 = 0.1;
/// Longer than any of these tests, seconds.
const NEVER: f64 = 3600.0;

/// A loopback connection whose near end is followed.
struct Followed {
    near: TcpStream,
    far: TcpStream,
    follower: Follower,
    initial: String,
}

impl Followed {
    /// Starts a transfer of 1,000 bytes, of which one has been moved.
    fn start(url: &str, direction: Direction, allow_nocc: &[&str]) -> Self {
        Self::start_after(url, direction, allow_nocc, || ())
    }

    fn start_after(
        url: &str,
        direction: Direction,
        allow_nocc: &[&str],
        before_the_first_byte: impl FnOnce(),
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let initial = tcp_congestion(near.as_fd()).unwrap();
        let transfer = transfer(&near, direction, Some(1_000));
        let mut follower = follow(url, allow_nocc).watch(&transfer);
        follower.started(near.as_fd(), Some(1_000));
        before_the_first_byte();
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        follower.progressed(1);
        Self {
            near,
            far,
            follower,
            initial,
        }
    }

    /// Delays the first byte until the first question has been asked; by itself it would wait at most 5 ms.
    fn sending(advisor: &TestAdvisor) -> Self {
        Self::start_after(&advisor.url(), Direction::Send, &[], || {
            wait_until("asked", || !advisor.asked().is_empty());
        })
    }

    fn control(&self) -> String {
        tcp_congestion(self.near.as_fd()).unwrap()
    }

    /// Waits while the transfer reports no further bytes.
    fn until(&mut self, what: &str, mut happened: impl FnMut(&Self) -> bool) {
        wait_until(what, || {
            self.follower.progressed(1);
            happened(self)
        });
    }

    fn lost(&self) -> Vec<String> {
        let records = self.follower.transfer().records().into_iter();
        let lost = records.filter_map(|record| match record.event {
            Event::Lost { reason } => Some(reason),
            _ => None,
        });
        lost.collect()
    }

    /// The advice that could not be applied: setting, reason, remedy.
    fn refused(&self) -> Vec<(Setting, String, String)> {
        let records = self.follower.transfer().records().into_iter();
        let refused = records.filter_map(|record| match record.event {
            Event::Refused {
                what, reason, fix, ..
            } => Some((what, reason, fix)),
            _ => None,
        });
        refused.collect()
    }

    /// The advice that was applied in part: setting, advice, applied value.
    fn bounded(&self) -> Vec<(Setting, String, String)> {
        let records = self.follower.transfer().records().into_iter();
        let bounded = records.filter_map(|record| match record.event {
            Event::Bounded {
                what, advised, to, ..
            } => Some((what, advised, to)),
            _ => None,
        });
        bounded.collect()
    }

    /// The changes made: setting, old value, new value.
    fn changes(&self) -> Vec<(Setting, String, String)> {
        let records = self.follower.transfer().records().into_iter();
        let changes = records.filter_map(|record| match record.event {
            Event::Change { what, from, to, .. } => Some((what, from, to)),
            _ => None,
        });
        changes.collect()
    }
}

fn control(name: &str, again: f64) -> Reply {
    Reply::Advice(advice(again, json!({ "congestion_control": name })))
}

/// An address at which nobody listens.
fn nobody() -> String {
    format!("http://{}", free_address())
}

#[test]
fn the_control_of_a_live_connection_changes_and_goes_back() {
    if !permitted(root()) {
        return;
    }
    let advisor = TestAdvisor::answering(vec![
        control("reno", SOON),
        control("cubic", SOON),
        Reply::Advice(advice(NEVER, json!({}))),
    ]);
    let mut followed = Followed::sending(&advisor);
    followed.until("cubic", |f| {
        f.changes().len() >= 2 || f.control() == "cubic"
    });
    let initial = followed.initial.clone();
    followed.until("the kernel's default", |f| {
        advisor.asked().len() == 3 && f.control() == initial
    });
    let mut expected = vec![initial.clone()];
    for name in ["reno", "cubic", &initial] {
        if expected.last().unwrap() != name {
            expected.push(name.to_owned());
        }
    }
    wait_until("all is told", || {
        let to = followed.changes().into_iter().map(|(_, _, to)| to);
        to.eq(expected[1..].iter().cloned())
    });
    assert_eq!(
        advisor.asked()[0],
        "/v1/advice?host=127.0.0.1&bytes=1000",
        "asked before the first byte"
    );
    assert_eq!(advisor.asked()[2], "/v1/advice?host=127.0.0.1&bytes=999");
}

#[test]
fn the_first_byte_leaves_as_advised_if_the_advisor_is_near() {
    let advisor = TestAdvisor::answering(vec![control("reno", NEVER)]);
    // On a busy machine the answer may come after the first byte; then it is applied a little later.
    let mut followed = Followed::sending(&advisor);
    followed.until("reno", |f| f.control() == "reno");
}

#[test]
fn pacing_bounds_the_rate_of_a_live_connection() {
    let paced = advice(NEVER, json!({ "pacing_mbps": 16.0 }));
    let advisor = TestAdvisor::answering(vec![Reply::Advice(paced)]);
    let mut followed = Followed::sending(&advisor);
    followed.until("paced", |f| !f.changes().is_empty());
    assert_eq!(
        followed.changes(),
        [(Setting::Pacing, "unlimited".into(), "16".into())]
    );
    let begun = Instant::now();
    let mut far = followed.far.try_clone().unwrap();
    let reader = thread::spawn(move || far.read_exact(&mut vec![0; 2_000_000]).unwrap());
    followed.near.write_all(&vec![1; 2_000_000]).unwrap();
    reader.join().unwrap();
    // 16 Mbit at 16 Mbit/s.
    let time = begun.elapsed();
    assert!(time > Duration::from_millis(800), "{time:?}");
}

#[test]
fn without_congestion_control_the_send_buffer_is_the_advised_one_and_is_given_back() {
    let off = json!({
        "mode": "no-congestion-control", "congestion_control": "reno", "send_buffer_bytes": 65536,
    });
    let advisor = TestAdvisor::answering(vec![
        Reply::Advice(advice(SOON, off)),
        Reply::Advice(advice(NEVER, json!({ "send_buffer_bytes": 65536 }))),
    ]);
    let mut followed = Followed::start(&advisor.url(), Direction::Send, &["127.0.0.0/8"]);
    let buffers = |f: &Followed| -> Vec<(String, String)> {
        let changes = f.changes().into_iter();
        let buffers = changes.filter(|(what, ..)| *what == Setting::SendBuffer);
        buffers.map(|(_, from, to)| (from, to)).collect()
    };
    followed.until("given back", |f| buffers(f).len() == 2);
    assert_eq!(
        buffers(&followed),
        [
            ("autotuned".into(), "65536".into()),
            ("65536".into(), "autotuned".into())
        ]
    );
    let size = SockRef::from(&followed.near).send_buffer_size().unwrap();
    assert_eq!(size, 131_072, "the kernel doubles what it is asked for");
}

#[test]
fn a_receiver_sizes_its_buffer_and_nothing_else() {
    // Beyond the kernel's limits, so only root may do it.
    if !permitted(root()) {
        return;
    }
    // More than autotuning allows, but not so much that it has to be justified by the path.
    let bytes = Direction::Receive.buffer_limits().adapted * 3 / 2;
    let changes = json!({
        "congestion_control": "reno", "pacing_mbps": 1.0, "receive_buffer_bytes": bytes,
        "send_buffer_bytes": bytes,
    });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, changes))]);
    let mut followed = Followed::start(&advisor.url(), Direction::Receive, &[]);
    followed.until("followed", |f| !f.changes().is_empty());
    assert_eq!(
        followed.changes(),
        [(
            Setting::ReceiveBuffer,
            "autotuned".into(),
            bytes.to_string()
        )]
    );
    assert_eq!(followed.bounded(), []);
    assert_eq!(followed.control(), followed.initial);
}

#[test]
fn pacing_far_below_what_the_path_has_carried_is_bounded() {
    let slow = advice(NEVER, json!({ "pacing_mbps": 0.1, "available_mbps": null }));
    let seen = Arc::new(Barrier::new(2));
    let advisor = TestAdvisor::answering(vec![
        Reply::Advice(advice(SOON, json!({}))),
        Reply::Held(Arc::clone(&seen), slow),
    ]);
    let mut followed = Followed::sending(&advisor);
    let mut far = followed.far.try_clone().unwrap();
    let reader = thread::spawn(move || std::io::copy(&mut far, &mut std::io::sink()).unwrap());
    // Sends until the second question, and longer than one measurement of the rate takes.
    let begun = Instant::now();
    while advisor.asked().len() < 2 || begun.elapsed() < Duration::from_millis(500) {
        followed.near.write_all(&vec![1; 100_000]).unwrap();
    }
    seen.wait();
    followed.until("bounded", |f| !f.changes().is_empty());
    let (what, advised, to) = followed.bounded().remove(0);
    assert_eq!((what, advised.as_str()), (Setting::Pacing, "0.1"));
    // Even a slow machine's loopback carries some hundreds of Mbit/s.
    let mbps: f64 = to.parse().unwrap();
    assert!(mbps > 5.0, "{mbps}");
    assert_eq!(
        followed.changes(),
        [(Setting::Pacing, "unlimited".into(), to)]
    );
    followed.near.shutdown(std::net::Shutdown::Write).unwrap();
    reader.join().unwrap();
}

#[test]
fn pacing_that_starves_a_path_nobody_knows_is_bounded_from_the_first_byte() {
    let slow = json!({ "pacing_mbps": 0.1, "available_mbps": null });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, slow))]);
    let mut followed = Followed::sending(&advisor);
    followed.until("bounded", |f| !f.changes().is_empty());
    // 1460 bytes in 10 ms.
    let expected = (Setting::Pacing, "0.1".to_owned(), "1.168".to_owned());
    assert_eq!(followed.bounded(), [expected]);
}

#[test]
fn a_buffer_far_beyond_the_product_of_the_path_is_bounded_in_both_directions() {
    let huge = json!({ "send_buffer_bytes": 1 << 30, "receive_buffer_bytes": 1 << 30 });
    for direction in [Direction::Send, Direction::Receive] {
        let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, huge.clone()))]);
        let mut followed = Followed::start(&advisor.url(), direction, &[]);
        followed.until("bounded", |f| !f.bounded().is_empty());
        let most = direction.buffer_limits().adapted * 2;
        let (_, advised, to) = followed.bounded().remove(0);
        assert_eq!((advised, to), ("1073741824".into(), most.to_string()));
        let size = fairwind_transfer::buffers::size(&followed.near, direction).unwrap();
        assert!(size <= most, "{size}");
    }
}

#[test]
fn buffers_that_somebody_else_has_set_stay() {
    let off = json!({
        "mode": "no-congestion-control", "congestion_control": "reno", "send_buffer_bytes": 65536,
    });
    let advisor = TestAdvisor::answering(vec![
        Reply::Advice(advice(SOON, json!({}))),
        Reply::Advice(advice(NEVER, off)),
    ]);
    let mut followed = Followed::start(&advisor.url(), Direction::Send, &["127.0.0.0/8"]);
    let socket = SockRef::from(&followed.near);
    socket.set_send_buffer_size(100_000).unwrap();
    followed.until("reno", |f| {
        advisor.asked().len() == 2 && f.control() == "reno"
    });
    thread::sleep(Duration::from_millis(20));
    assert_eq!(
        SockRef::from(&followed.near).send_buffer_size().unwrap(),
        200_000
    );
}

#[test]
fn nocc_is_refused_where_the_path_is_not_declared_as_own_and_told_once() {
    let off = advice(
        SOON,
        json!({ "mode": "no-congestion-control", "congestion_control": "nocc", "pacing_mbps": 9.0 }),
    );
    let advisor = TestAdvisor::answering(vec![Reply::Advice(off)]);
    let mut followed = Followed::start(&advisor.url(), Direction::Send, &["192.0.2.0/24"]);
    followed.until("asked again", |_| advisor.asked().len() >= 3);
    assert_eq!(
        followed.refused(),
        [(
            Setting::CongestionControl,
            "the path to 127.0.0.1 is not declared as own here".into(),
            "--allow-nocc 127.0.0.1/32".into()
        )]
    );
    assert_eq!(followed.changes(), []);
    assert_eq!(followed.control(), followed.initial);
}

#[test]
fn a_control_that_is_not_loaded_is_told_once_with_the_command_that_loads_it() {
    let advisor = TestAdvisor::answering(vec![control("nosuchcontrol", SOON)]);
    let mut followed = Followed::sending(&advisor);
    followed.until("asked again", |_| advisor.asked().len() >= 3);
    let refused = followed.refused();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].2, "modprobe tcp_nosuchcontrol");
    assert_eq!(followed.control(), followed.initial);
}

/// Nobody has to permit what takes no more than standard TCP does.
#[test]
fn the_background_and_a_rate_are_followed_on_every_path() {
    let background = json!({ "full_mode": "background", "congestion_control": "reno" });
    let rate = json!({ "full_mode": "rate", "pacing_mbps": 30.0 });
    let advisor = TestAdvisor::answering(vec![
        Reply::Advice(advice(SOON, background)),
        Reply::Advice(advice(NEVER, rate)),
    ]);
    let mut followed = Followed::start(&advisor.url(), Direction::Send, &[]);
    let initial = followed.initial.clone();
    followed.until("a rate", |f| f.changes().len() == 3);
    assert_eq!(
        followed.changes(),
        [
            (Setting::CongestionControl, initial.clone(), "reno".into()),
            (Setting::Pacing, "unlimited".into(), "30".into()),
            (Setting::CongestionControl, "reno".into(), initial),
        ]
    );
    assert_eq!(followed.refused(), []);
}

#[test]
fn where_the_control_for_the_background_is_not_loaded_the_transfer_keeps_its_own() {
    let name = "fw_fairwind";
    if kernel::available()
        .unwrap()
        .iter()
        .any(|there| there == name)
    {
        return;
    }
    let background = json!({ "full_mode": "background", "congestion_control": "fairwind" });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, background))]);
    let mut followed = Followed::start(&advisor.url(), Direction::Send, &[]);
    followed.until("refused", |f| !f.refused().is_empty());
    let (what, reason, fix) = followed.refused().remove(0);
    assert_eq!(what, Setting::CongestionControl);
    assert_eq!(reason, "the kernel has no control of this name");
    assert_eq!(fix, "fairwind cc load fairwind");
    assert_eq!(followed.control(), followed.initial);
}

#[test]
fn nocc_is_taken_on_own_paths_and_left_when_advice_ends() {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let parameters = native::find("nocc").unwrap().default_parameters();
    let name = format!("fw_nocc_{:04x}", std::process::id() & 0xffff);
    let Some(loaded) = or_skip(kernel::load_as(&parameters, &name)) else {
        return;
    };
    let off = json!({ "mode": "no-congestion-control", "congestion_control": name });
    let off = advice(SOON, off);
    // The answer that ends the advice is held until the first one has been applied.
    let seen = Arc::new(Barrier::new(2));
    let advisor = TestAdvisor::answering(vec![
        Reply::Advice(off.clone()),
        Reply::Held(Arc::clone(&seen), off),
        Reply::Failure,
    ]);
    let mut followed = Followed::start(&advisor.url(), Direction::Send, &["127.0.0.0/8"]);
    followed.until("nocc", |f| f.control() == loaded.name());
    seen.wait();
    let initial = followed.initial.clone();
    followed.until("back", |f| f.control() == initial);
    assert_eq!(followed.lost().len(), 1);
    wait_until("told", || {
        followed.changes()
            == [
                (Setting::CongestionControl, initial.clone(), name.clone()),
                (Setting::CongestionControl, name.clone(), initial.clone()),
            ]
    });
}

#[test]
fn an_advisor_that_is_gone_changes_nothing() {
    let mut followed = Followed::start(&nobody(), Direction::Send, &["127.0.0.0/8"]);
    followed.until("lost", |f| !f.lost().is_empty());
    // Long enough for two more questions.
    let later = Instant::now() + Duration::from_millis(1_500);
    followed.until("later", |_| Instant::now() > later);
    assert_eq!(followed.lost().len(), 1, "{:?}", followed.lost());
    assert_eq!(followed.changes(), []);
    followed.follower.ended(1_000);
}

#[test]
fn a_transfer_does_not_wait_for_a_slow_advisor_and_takes_its_late_answer() {
    let late = advice(
        NEVER,
        json!({ "congestion_control": "reno", "pacing_mbps": 100.0 }),
    );
    let answers = Arc::new(Barrier::new(2));
    let advisor = TestAdvisor::answering(vec![Reply::Held(Arc::clone(&answers), late)]);
    let mut followed = Followed::sending(&advisor);
    followed.until("defaults", |f| !f.lost().is_empty());
    assert_eq!(followed.lost(), ["no answer within 2 s"]);
    // The transfer is running, and nothing has been answered yet.
    assert_eq!(followed.changes(), []);
    answers.wait();
    followed.until("the late answer", |f| {
        f.control() == "reno" && f.changes().iter().any(|c| c.0 == Setting::Pacing)
    });
}

#[test]
fn an_advisor_that_talks_nonsense_is_not_followed() {
    let absurd = advice(
        SOON,
        json!({ "congestion_control": "cubic", "pacing_mbps": -3.0 }),
    );
    let huge = advice(SOON, json!({ "reason": "x".repeat(10 << 20) }));
    for (what, reply, expected) in [
        ("negative", Reply::Advice(absurd), "pacing at -3 Mbit/s"),
        (
            "garbage",
            Reply::Body(b"{\"mode\": 3".to_vec()),
            "makes no sense",
        ),
        ("binary", Reply::Body(vec![0xff; 1_000]), "UTF-8"),
        ("empty", Reply::Body(Vec::new()), "makes no sense"),
        ("huge", Reply::Advice(huge), ""),
        ("failing", Reply::Failure, "no disk"),
    ] {
        let advisor = TestAdvisor::answering(vec![control("reno", SOON), reply]);
        let mut followed = Followed::sending(&advisor);
        followed.until(what, |f| !f.lost().is_empty());
        let initial = followed.initial.clone();
        followed.until(what, |f| f.control() == initial);
        let lost = followed.lost();
        assert_eq!(lost.len(), 1, "{what}: {lost:?}");
        assert!(lost[0].contains(expected), "{what}: {lost:?}");
        assert!(lost[0].len() < 1_000, "{what}: {}", lost[0].len());
    }
}

#[test]
fn a_copy_of_the_socket_goes_with_the_transfer_though_the_advisor_is_silent() {
    let advisor = TestAdvisor::answering(vec![Reply::Silence]);
    let Followed {
        near,
        mut far,
        mut follower,
        ..
    } = Followed::sending(&advisor);
    wait_until("asked", || !advisor.asked().is_empty());
    let begun = Instant::now();
    let (end, stalls) = with_stalls(|| {
        follower.ended(1);
        drop(near);
        far.read(&mut [0]).unwrap()
    });
    assert_eq!(end, 0, "the end of the stream");
    let time = begun.elapsed();
    assert!(time < Duration::from_secs(1) + stalls, "{time:?}");
}

#[test]
fn the_advisor_hears_how_the_transfer_went() {
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, json!({})))]);
    let mut followed = Followed::sending(&advisor);
    followed.until("answered", |f| !f.follower.transfer().records().is_empty());
    followed.near.write_all(&[1; 999]).unwrap();
    followed.far.read_exact(&mut [0; 999]).unwrap();
    wait_until("acknowledged", || {
        followed.follower.progressed(1_000);
        // Longer than the delay of a delayed ACK on loopback.
        thread::sleep(Duration::from_millis(60));
        true
    });
    followed.follower.ended(1_000);
    wait_until("told", || advisor.results().len() == 1);
    let result = &advisor.results()[0];
    assert_eq!(result["host"], "127.0.0.1");
    assert_eq!(result["bytes"], 1_000);
    assert_eq!(result["direction"], "sent");
    assert_eq!(result["retransmits"], 0);
    assert!(result["seconds"].as_f64().unwrap() > 0.05, "{result}");
    assert!(result["rtt_ms"].as_f64().unwrap() < 1_000.0, "{result}");
}
