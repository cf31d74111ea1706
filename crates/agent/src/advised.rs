//! Connections that follow an advisor: it is asked about their peers in a thread of its own, and what it says is put where the
//! kernel's programs look it up, and what it forecasts where new connections do: both by the prefix for which an answer holds.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwind_advice::wire::Answer;
use fairwind_advice::{Advice, Mode};
use fairwind_advice_client::{Client, ClientError};
use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::{Choice, Destination, Pins, Provided, is_nocc, provide};
use fairwind_origin::Prefix;
use fairwind_trace::filter::Network;
use fairwind_transfer::advised::{Orders, forecast};
use libbpf_rs::{MapCore, MapHandle, Object, RingBufferBuilder};

use crate::action::Encoded;
use crate::answers::Times;
use crate::starts::{AdvisedDestination, Starts};
use crate::told::Told;
use crate::unfollowed::Unfollowed;

/// The longest wait for questions.
const WAIT: Duration = Duration::from_millis(250);
/// Between looks, while an answer is waited for, whether it is still wanted.
const LOOKS: Duration = Duration::from_millis(20);
/// The congestion control that the kernel gives without any wish.
const STANDARD: &str = "net.ipv4.tcp_congestion_control";

/// Whom to ask, and how far to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advisor {
    /// Its address, as of `fairwind advise`.
    pub url: String,
    /// Networks in which it may switch congestion control off.
    pub allow_nocc: Vec<Network>,
}

/// The thread, until this is dropped.
#[derive(Debug)]
pub(crate) struct Following {
    advisor: Advisor,
    starts: Arc<Mutex<Starts>>,
    unfollowed: Arc<Mutex<Unfollowed>>,
    must_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The advisor's address is none, or the environment's token is invalid.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The kernel refuses its maps.
    #[error("the advisor's answers cannot be told to the kernel: {0}")]
    Kernel(#[from] libbpf_rs::Error),
    /// No thread can be started.
    #[error("the advisor cannot be asked: {0}")]
    Thread(#[from] std::io::Error),
}

impl Following {
    /// Starts it for the programs of the object; if dry, it advises no destination.
    pub(crate) fn start(
        object: &Object,
        advisor: &Advisor,
        is_dry: bool,
    ) -> Result<Following, FollowError> {
        let handle = |name: &str| {
            let mut maps = object.maps();
            let map = maps.find(|map| map.name() == name);
            MapHandle::try_from(&map.expect("the object has the map"))
        };
        let (asked, told) = (handle("asked")?, Told::by(handle("advised")?));
        let starts = Arc::<Mutex<Starts>>::default();
        let unfollowed = Arc::<Mutex<Unfollowed>>::default();
        let asker = Asker {
            client: Client::new(&advisor.url)?.with_token_of_environment()?,
            advisor: advisor.clone(),
            controls: HashMap::new(),
            missing: HashSet::new(),
            starts: (!is_dry).then(|| Arc::clone(&starts)),
            unfollowed: Arc::clone(&unfollowed),
            number: 0,
            is_lost: false,
            is_full: false,
        };
        let must_end = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&must_end);
        let of_thread = Arc::clone(&unfollowed);
        let follow = move || {
            if let Err(error) = follow(asker, &asked, told, &is_over) {
                let said = format!("advice is no longer followed: {error}");
                tracing::error!("{said}");
                locked(&of_thread).note("end", said);
            }
        };
        let thread = thread::Builder::new().name("advice".to_owned());
        Ok(Following {
            advisor: advisor.clone(),
            starts,
            unfollowed,
            must_end,
            thread: Some(thread.spawn(follow)?),
        })
    }

    /// Whom it asks.
    pub(crate) fn advisor(&self) -> &Advisor {
        &self.advisor
    }

    /// The destinations whose new connections start as it forecasts.
    pub(crate) fn starts(&self) -> Vec<AdvisedDestination> {
        locked(&self.starts).list(fairwind_kernel::monotonic_ns())
    }

    /// How often connections have found a forecast wrong.
    pub(crate) fn found_wrong(&self) -> u64 {
        locked(&self.starts).found_wrong()
    }

    /// Ends, and says what of the advice was not followed, and why.
    pub(crate) fn finish(self) -> Vec<String> {
        let unfollowed = Arc::clone(&self.unfollowed);
        // Then all is noted.
        drop(self);
        locked(&unfollowed).list()
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `struct peer` of `bpf/advice.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Peer {
    /// The inode of the network namespace that sees it.
    netns: u32,
    address: [u8; 16],
}

impl Peer {
    fn of_bytes(bytes: &[u8]) -> Option<Peer> {
        let (netns, address) = bytes.split_first_chunk()?;
        Some(Peer {
            netns: u32::from_ne_bytes(*netns),
            address: address.try_into().ok()?,
        })
    }

    fn address(&self) -> IpAddr {
        IpAddr::V6(Ipv6Addr::from(self.address)).to_canonical()
    }

    /// Nobody else.
    fn destination(&self) -> Destination {
        Destination::of(self.netns, Prefix::host(self.address()))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.must_end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn follow(
    mut asker: Asker,
    asked: &MapHandle,
    mut told: Told,
    is_over: &AtomicBool,
) -> libbpf_rs::Result<()> {
    let peers = RefCell::new(Vec::new());
    let mut ring = RingBufferBuilder::new();
    ring.add(asked, |bytes| {
        peers.borrow_mut().extend(Peer::of_bytes(bytes));
        0
    })?;
    let ring = ring.build()?;
    let mut is_refused = false;
    while !is_over.load(Ordering::Relaxed) {
        ring.poll_raw(WAIT);
        let mut peers: Vec<Peer> = peers.borrow_mut().drain(..).collect();
        peers.sort_unstable();
        peers.dedup();
        for peer in peers {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let (host, now_ns) = (peer.destination(), fairwind_kernel::monotonic_ns());
            // Meanwhile, an answer about another may have been one about it.
            if told.is_known(&host, now_ns) {
                continue;
            }
            let Some(Followed { to, advice, times }) = asker.ask(peer, is_over) else {
                continue;
            };
            match told.tell(&host, to, &advice, times, now_ns) {
                Ok(()) => is_refused = false,
                Err(error) => {
                    let said = format!("advice cannot be told to the kernel: {error}");
                    if !is_refused {
                        tracing::error!("{said}");
                    }
                    is_refused = true;
                    asker.note("kernel", said);
                }
            }
        }
        told.forget_ended(fairwind_kernel::monotonic_ns());
        asker.forget_ended();
    }
    Ok(())
}

/// What follows from an answer.
#[derive(Debug)]
struct Followed {
    /// For whom.
    to: Destination,
    /// `struct advice` of `bpf/advice.h`.
    advice: Vec<u8>,
    times: Times,
}

/// Asks, and keeps the congestion controls of the answers loaded.
#[derive(Debug)]
struct Asker {
    client: Client,
    advisor: Advisor,
    controls: HashMap<String, Provided>,
    /// The names of congestion controls of which it has been said that they are not to be had.
    missing: HashSet<String>,
    /// The destinations that are advised; none if nothing is to be changed.
    starts: Option<Arc<Mutex<Starts>>>,
    unfollowed: Arc<Mutex<Unfollowed>>,
    number: u32,
    /// Whether it has been said that the advisor does not answer.
    is_lost: bool,
    /// Whether it has been said that the kernel takes no more destinations.
    is_full: bool,
}

impl Asker {
    /// Asks about the peer; none without an answer, and the latest holds for a while.
    fn ask(&mut self, peer: Peer, is_over: &AtomicBool) -> Option<Followed> {
        let answer = answer(&self.client, peer.address(), is_over);
        let follow = |answer: Answer| self.follow(&answer, peer, fairwind_kernel::monotonic_ns());
        match answer.and_then(follow) {
            Ok(followed) => {
                self.is_lost = false;
                Some(followed)
            }
            Err(error) => {
                if !self.is_lost {
                    tracing::warn!("no advice: {error}");
                }
                self.is_lost = true;
                self.note("advice", format!("advice: {error}"));
                None
            }
        }
    }

    /// Takes note of what is not followed, for who asks at the end.
    fn note(&self, about: &str, said: String) {
        locked(&self.unfollowed).note(about, said);
    }

    /// Follows an answer, unless it makes no sense.
    fn follow(&mut self, answer: &Answer, peer: Peer, now_ns: u64) -> Result<Followed, String> {
        let times = Times::of(answer, now_ns);
        let sound = Orders::of_answer(answer, times.ends_ns);
        sound.map_err(|what| format!("it makes no sense: {what}"))?;
        let Advice {
            mode,
            congestion_control,
            pacing_mbps,
            ..
        } = &answer.advice;
        // It may be named whatever the mode says.
        let is_off =
            !mode.has_congestion_control() || congestion_control.as_deref().is_some_and(is_nocc);
        let prefix = answer.holds_for(peer.address());
        let (is_allowed, prefix) = match is_off {
            false => (true, prefix),
            true => self.allowed(peer.address(), prefix),
        };
        if !is_allowed {
            let name = congestion_control.as_deref().unwrap_or_default();
            let (what, peer) = (advised(name), peer.address());
            let said = format!("{what} the path to {peer} is not declared as own here");
            self.note("nocc", said);
        }
        let to = Destination::of(peer.netns, prefix);
        let control = congestion_control.as_deref().filter(|_| is_allowed);
        let standard = || fairwind_kernel::sysctl(STANDARD);
        let control = control
            .and_then(|name| self.kernel_name(name))
            .or_else(standard);
        let control = control.as_deref().map(str::trim);
        let rate = pacing_mbps
            .filter(|_| is_allowed)
            .map(|mbps| mbps * 1e6 / 8.0);
        let action = Encoded {
            control,
            max_rate: rate.map(|rate| rate.clamp(1.0, f64::from(u32::MAX - 1)) as u32),
            is_held: *mode == Mode::Background,
            ..Encoded::default()
        };
        // Before the connection has the control, which looks the start up.
        let start = forecast(answer, times.ends_ns);
        self.advise_start(&peer.destination(), to, control, start, now_ns);
        // 0 stands for none.
        self.number = self.number.checked_add(1).unwrap_or(1);
        let mut advice = action.bytes();
        advice.extend(times.asks_ns.to_ne_bytes());
        advice.extend(times.ends_ns.to_ne_bytes());
        advice.extend(self.number.to_ne_bytes());
        advice.extend([0; 4]);
        Ok(Followed { to, advice, times })
    }

    /// Whether congestion control may be off to an address, and the part of the prefix around it of which the same holds.
    fn allowed(&self, address: IpAddr, prefix: Prefix) -> (bool, Prefix) {
        let networks = self.advisor.allow_nocc.iter();
        let networks = networks.map(|network| network.prefix());
        let host = Prefix::host(address);
        match networks.clone().find(|network| network.covers(host)) {
            Some(network) if prefix.covers(network) => (true, network),
            Some(_) => (true, prefix),
            None => (false, prefix.around(address, networks)),
        }
    }

    /// Advises new connections of their start after an answer about a peer, or no longer: with this congestion control, if
    /// it takes advice.
    fn advise_start(
        &mut self,
        peer: &Destination,
        to: Destination,
        control: Option<&str>,
        start: Option<AdvisedStart>,
        now_ns: u64,
    ) {
        let Some(starts) = &self.starts else {
            return;
        };
        let maps = control.filter(|_| start.is_some()).and_then(|name| {
            let mut own = self.controls.values();
            match own.find(|own| own.name() == name) {
                Some(own) => own.advised_starts(),
                None => Pins::default().advised_starts_of(name),
            }
        });
        let mut starts = locked(starts);
        starts.replace(peer, &to, now_ns);
        let advised = match (control, start, maps) {
            (Some(control), Some(start), Some(maps)) => {
                starts.advise(to, control, maps, start, now_ns)
            }
            _ => starts.withdraw(&to),
        };
        match advised {
            Ok(()) => self.is_full = false,
            Err(error) => {
                drop(starts);
                if !self.is_full {
                    tracing::warn!("{error}");
                }
                self.is_full = true;
                self.note("start", format!("an advised start: {error}"));
            }
        }
    }

    /// Removes destinations of which nothing is forecast any more.
    fn forget_ended(&self) {
        if let Some(starts) = &self.starts {
            locked(starts).forget_ended(fairwind_kernel::monotonic_ns());
        }
    }

    /// The kernel's name of a congestion control of an answer; none if it is not to be had now, which is said once.
    fn kernel_name(&mut self, name: &str) -> Option<String> {
        if let Some(control) = self.controls.get(name) {
            return Some(control.name().to_owned());
        }
        match provide(&Choice::Named(name.to_owned())) {
            Ok(control) => {
                self.missing.remove(name);
                let of_kernel = control.name().to_owned();
                self.controls.insert(name.to_owned(), control);
                Some(of_kernel)
            }
            Err(error) => {
                if self.missing.insert(name.to_owned()) {
                    tracing::warn!("{name} is advised: {error}");
                }
                // Then comes what the verifier has said.
                let error = error.to_string();
                let error = error.lines().next().unwrap_or_default();
                self.note(
                    &format!("control {name}"),
                    format!("{} {error}", advised(name)),
                );
                None
            }
        }
    }
}

/// What the advisor answers about a peer. The question has a thread of its own, as nobody is to wait for an answer who ends.
fn answer(client: &Client, peer: IpAddr, is_over: &AtomicBool) -> Result<Answer, String> {
    let (tell, told) = mpsc::channel();
    let asks = client.clone();
    let ask = move || {
        // It may be over.
        let _ = tell.send(asks.advice(&peer.to_string(), None));
    };
    let thread = thread::Builder::new().name("ask".to_owned()).spawn(ask);
    thread.map_err(|error| format!("no thread for a question: {error}"))?;
    loop {
        match told.recv_timeout(LOOKS) {
            Ok(answer) => return answer.map_err(|error| error.to_string()),
            Err(RecvTimeoutError::Timeout) if !is_over.load(Ordering::Relaxed) => {}
            Err(_) => return Err(format!("{}: no answer has come yet", client.url())),
        }
    }
}

/// The beginning of a sentence that says why a congestion control is not had.
fn advised(name: &str) -> String {
    format!("congestion control {name} is advised, but")
}

#[cfg(test)]
mod tests {
    use fairwind_cc::kernel::load_as;
    use fairwind_cc::native;
    use fairwind_testing::advisor::{Reply, TestAdvisor};
    use fairwind_testing::wait_until;

    use super::*;

    fn answer(mode: &str, rest: &str) -> Answer {
        let text = format!(
            "{{\"mode\": \"{mode}\", {rest} \"next_advice\": \"2026-01-01T00:00:00Z\", \"model\": \"linear\", \
             \"days_used\": 0, \"reason\": \"\", \"ask_again_after_s\": 2.0}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    fn asker(allow_nocc: &[&str]) -> Asker {
        let networks = allow_nocc.iter().map(|text| text.parse().unwrap());
        Asker {
            client: Client::new("http://127.0.0.1:1").unwrap(),
            advisor: Advisor {
                url: String::new(),
                allow_nocc: networks.collect(),
            },
            controls: HashMap::new(),
            missing: HashSet::new(),
            starts: None,
            unfollowed: Arc::default(),
            number: 0,
            is_lost: false,
            is_full: false,
        }
    }

    const PEER: Peer = Peer {
        netns: 7,
        address: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
    };

    #[test]
    fn a_peer_is_in_the_programs_layout() {
        let bytes = [&7u32.to_ne_bytes()[..], &PEER.address].concat();
        assert_eq!(Peer::of_bytes(&bytes), Some(PEER));
        assert_eq!(Peer::of_bytes(&bytes[1..]), None);
        assert_eq!(PEER.destination(), to("10.0.0.1", 32));
        // `struct peers`.
        let bits = 160u32.to_ne_bytes();
        assert_eq!(PEER.destination().key(), [&bits, &bytes[..]].concat());
    }

    fn to(address: &str, bits: u32) -> Destination {
        Destination::new(7, address.parse().unwrap(), bits).unwrap()
    }

    fn name(advice: &[u8]) -> String {
        let name = advice[..16].split(|byte| *byte == 0).next().unwrap();
        String::from_utf8(name.to_vec()).unwrap()
    }

    #[test]
    fn advice_is_in_the_programs_layout() {
        let rest =
            "\"congestion_control\": \"reno\", \"pacing_mbps\": 8.0, \"full_mode\": \"rate\",";
        let answer = answer("congestion-control", rest);
        let followed = asker(&[]).follow(&answer, PEER, 5_000_000_000);
        let followed = followed.unwrap();
        let mut expected = b"reno".to_vec();
        expected.resize(16, 0);
        expected.extend(1_000_000u32.to_ne_bytes());
        expected.extend([0; 12]);
        expected.extend(7_000_000_000u64.to_ne_bytes());
        expected.extend(37_000_000_000u64.to_ne_bytes());
        expected.extend(1u32.to_ne_bytes());
        expected.extend([0; 4]);
        assert_eq!(followed.advice, expected);
        assert_eq!(followed.to, PEER.destination());
    }

    #[test]
    fn congestion_control_is_off_only_where_the_operator_allows_it() {
        // The kernel's own stands for nocc, which may not be loaded here.
        let rest = "\"congestion_control\": \"reno\", \"pacing_mbps\": 8.0,";
        let off = answer("no-congestion-control", rest);
        let advice = |allowed: &[&str], answer: &Answer| {
            let followed = asker(allowed).follow(answer, PEER, 0);
            followed.unwrap().advice
        };
        let inside = advice(&["10.0.0.0/8"], &off);
        assert_eq!(name(&inside), "reno");
        let outside = advice(&["192.0.2.0/24"], &off);
        let standard = fairwind_kernel::sysctl(STANDARD).unwrap();
        assert_eq!(name(&outside), standard.trim());
        assert_eq!(outside[16..20], [0; 4]);
        // Whatever the mode says.
        let named = answer("congestion-control", "\"congestion_control\": \"fw_nocc\",");
        let outside = advice(&["192.0.2.0/24"], &named);
        assert_eq!(name(&outside), standard.trim());
    }

    #[test]
    fn what_is_not_followed_is_told_with_its_reason() {
        let mut asker = asker(&[]);
        assert!(asker.ask(PEER, &AtomicBool::new(false)).is_none());
        let off = answer("no-congestion-control", "\"congestion_control\": \"nocc\",");
        asker.follow(&off, PEER, 0).unwrap();
        let unknown = answer("congestion-control", "\"congestion_control\": \"no_such\",");
        asker.follow(&unknown, PEER, 0).unwrap();
        let told = locked(&asker.unfollowed).list();
        let [lost, unknown, off] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(lost.starts_with("advice: http://127.0.0.1:1"), "{lost}");
        let said = "congestion control no_such is advised, but there is no congestion control";
        assert!(unknown.starts_with(said), "{unknown}");
        let said = "congestion control nocc is advised, but the path to 10.0.0.1 is not declared as own here";
        assert_eq!(off, said);
    }

    #[test]
    fn who_ends_does_not_wait_for_an_answer() {
        let advisor = TestAdvisor::answering(vec![Reply::Silence]);
        let client = Client::new(&advisor.url()).unwrap();
        let client = client.with_deadline(Duration::from_secs(1000));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let asking = scope.spawn(|| super::answer(&client, PEER.address(), &is_over));
            wait_until("it is asked", || !advisor.asked().is_empty());
            assert!(!asking.is_finished());
            is_over.store(true, Ordering::Relaxed);
            let said = asking.join().unwrap().unwrap_err();
            assert_eq!(said, format!("{}: no answer has come yet", advisor.url()));
        });
    }

    #[test]
    fn an_answer_is_for_all_of_its_prefix() {
        let of = |mode: &str, prefix: &str, allowed: &[&str]| {
            let rest = format!("\"congestion_control\": \"reno\", \"prefix\": \"{prefix}\",");
            let followed = asker(allowed).follow(&answer(mode, &rest), PEER, 0);
            followed.unwrap().to
        };
        let on = "congestion-control";
        assert_eq!(of(on, "10.0.0.0/8", &[]), to("10.0.0.0", 8));
        assert_eq!(of(on, "0.0.0.0/0", &[]), to("0.0.0.0", 0));
        assert_eq!(of(on, "::ffff:10.0.0.0/104", &[]), to("10.0.0.0", 8));
        // The peer is not in it.
        assert_eq!(of(on, "10.0.0.2/32", &[]), PEER.destination());
        assert_eq!(of(on, "::/0", &[]), PEER.destination());
        // In the part that is the operator's own, or in that which is not.
        let off = "no-congestion-control";
        assert_eq!(of(off, "10.0.0.0/8", &["10.0.0.0/24"]), to("10.0.0.0", 24));
        assert_eq!(of(off, "10.0.0.0/24", &["10.0.0.0/8"]), to("10.0.0.0", 24));
        assert_eq!(of(off, "10.0.0.0/24", &["::/0"]), to("10.0.0.0", 24));
        assert_eq!(of(off, "10.0.0.0/8", &["10.128.0.0/9"]), to("10.0.0.0", 9));
        assert_eq!(of(on, "10.0.0.0/8", &["10.0.0.0/24"]), to("10.0.0.0", 8));
        let peer = Peer {
            netns: 7,
            address: "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets(),
        };
        let rest = "\"congestion_control\": \"reno\", \"prefix\": \"::/0\",";
        // An IPv4 address is written as one of IPv6 there.
        let followed = asker(&[]).follow(&answer(on, rest), peer, 0);
        assert_eq!(followed.unwrap().to, to("2000::", 3));
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_not_followed() {
        let refused = |rest: &str| {
            let wrong = answer("congestion-control", rest);
            asker(&[]).follow(&wrong, PEER, 0).unwrap_err()
        };
        assert_eq!(
            refused("\"pacing_mbps\": 0.0,"),
            "it makes no sense: pacing at 0 Mbit/s"
        );
        assert_eq!(
            refused("\"pacing_mbps\": -1.0,"),
            "it makes no sense: pacing at -1 Mbit/s"
        );
        let unnamed = refused("\"full_mode\": \"background\",");
        assert!(unnamed.contains("names no control"), "{unnamed}");
    }

    #[test]
    fn a_control_that_is_not_to_be_had_is_tried_again() {
        if !fairwind_testing::permitted(fairwind_testing::root()) {
            return;
        }
        let name = format!("late_{:04x}", std::process::id() & 0xffff);
        let mut asker = asker(&[]);
        assert_eq!(asker.kernel_name(&name), None);
        let parameters = native::find("sfsack").unwrap().default_parameters();
        let Some(_loaded) = fairwind_testing::or_skip(load_as(&parameters, &name)) else {
            return;
        };
        assert_eq!(asker.kernel_name(&name), Some(name));
    }
}
