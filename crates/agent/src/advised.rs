//! Connections that follow an advisor: it is asked about their peers in a thread of its own, and what it says is put where the
//! kernel's programs look it up.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fairwind_advice::wire::Answer;
use fairwind_advice::{Advice, Mode};
use fairwind_advice_client::{Client, ClientError};
use fairwind_cc::kernel::{Choice, Provided, provide};
use fairwind_trace::filter::Network;
use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBufferBuilder};

use crate::action::Encoded;

/// The longest wait for questions.
const WAIT: Duration = Duration::from_millis(250);
/// Advice holds for so long after the moment at which to ask again, in which the answer comes.
const GRACE: Duration = Duration::from_secs(30);
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
    must_end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The advisor's address is none.
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
    /// Starts it for the programs of the object.
    pub(crate) fn start(object: &Object, advisor: &Advisor) -> Result<Following, FollowError> {
        let handle = |name: &str| {
            let mut maps = object.maps();
            let map = maps.find(|map| map.name() == name);
            MapHandle::try_from(&map.expect("the object has the map"))
        };
        let [asked, advised] = [handle("asked")?, handle("advised")?];
        let asker = Asker {
            client: Client::new(&advisor.url)?,
            advisor: advisor.clone(),
            controls: HashMap::new(),
            number: 0,
            is_lost: false,
        };
        let must_end = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&must_end);
        let follow = move || {
            if let Err(error) = follow(asker, &asked, &advised, &is_over) {
                tracing::error!("advice is no longer followed: {error}");
            }
        };
        let thread = thread::Builder::new().name("advice".to_owned());
        Ok(Following {
            advisor: advisor.clone(),
            must_end,
            thread: Some(thread.spawn(follow)?),
        })
    }

    /// Whom it asks.
    pub(crate) fn advisor(&self) -> &Advisor {
        &self.advisor
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
    advised: &MapHandle,
    is_over: &AtomicBool,
) -> libbpf_rs::Result<()> {
    let peers = RefCell::new(Vec::new());
    let mut ring = RingBufferBuilder::new();
    ring.add(asked, |bytes| {
        peers.borrow_mut().extend(<[u8; 16]>::try_from(bytes));
        0
    })?;
    let ring = ring.build()?;
    while !is_over.load(Ordering::Relaxed) {
        ring.poll_raw(WAIT);
        let mut peers: Vec<[u8; 16]> = peers.borrow_mut().drain(..).collect();
        peers.sort_unstable();
        peers.dedup();
        for peer in peers {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            if let Some(advice) = asker.ask(peer) {
                advised.update(&peer, &advice, MapFlags::ANY)?;
            }
        }
    }
    Ok(())
}

/// Asks, and keeps the congestion controls of the answers loaded.
#[derive(Debug)]
struct Asker {
    client: Client,
    advisor: Advisor,
    controls: HashMap<String, Option<Provided>>,
    number: u32,
    /// Whether it has been said that the advisor does not answer.
    is_lost: bool,
}

impl Asker {
    /// `struct advice` of `bpf/advice.h` on the peer; none without an answer, and the latest holds for a while.
    fn ask(&mut self, peer: [u8; 16]) -> Option<Vec<u8>> {
        let peer = IpAddr::V6(Ipv6Addr::from(peer)).to_canonical();
        match self.client.advice(&peer.to_string(), None) {
            Ok(answer) => {
                self.is_lost = false;
                Some(self.advice(&answer, peer, fairwind_kernel::monotonic_ns()))
            }
            Err(error) => {
                if !self.is_lost {
                    tracing::warn!("no advice: {error}");
                }
                self.is_lost = true;
                None
            }
        }
    }

    fn advice(&mut self, answer: &Answer, peer: IpAddr, now_ns: u64) -> Vec<u8> {
        let Advice {
            mode,
            congestion_control,
            pacing_mbps,
            ..
        } = &answer.advice;
        let mut networks = self.advisor.allow_nocc.iter();
        let is_allowed =
            mode.has_congestion_control() || networks.any(|network| network.contains(peer));
        let control = congestion_control.as_deref().filter(|_| is_allowed);
        let standard = || fairwind_kernel::sysctl(STANDARD);
        let control = control
            .and_then(|name| self.kernel_name(name))
            .or_else(standard);
        let rate = pacing_mbps
            .filter(|_| is_allowed)
            .map(|mbps| mbps * 1e6 / 8.0);
        let action = Encoded {
            control: control.as_deref().map(str::trim),
            max_rate: rate.map(|rate| rate.clamp(1.0, f64::from(u32::MAX - 1)) as u32),
            is_held: *mode == Mode::Background,
            ..Encoded::default()
        };
        let asks = now_ns + answer.ask_again_after().as_nanos() as u64;
        // 0 stands for none.
        self.number = self.number.checked_add(1).unwrap_or(1);
        let mut bytes = action.bytes();
        bytes.extend(asks.to_ne_bytes());
        bytes.extend((asks + GRACE.as_nanos() as u64).to_ne_bytes());
        bytes.extend(self.number.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    /// The kernel's name of a congestion control of an answer; none if it is not to be had, which is said once.
    fn kernel_name(&mut self, name: &str) -> Option<String> {
        let load = || match provide(&Choice::Named(name.to_owned())) {
            Ok(provided) => Some(provided),
            Err(error) => {
                tracing::warn!("{name} is advised: {error}");
                None
            }
        };
        let control = self.controls.entry(name.to_owned()).or_insert_with(load);
        control.as_ref().map(|control| control.name().to_owned())
    }
}

#[cfg(test)]
mod tests {
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
            number: 0,
            is_lost: false,
        }
    }

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn name(advice: &[u8]) -> String {
        let name = advice[..16].split(|byte| *byte == 0).next().unwrap();
        String::from_utf8(name.to_vec()).unwrap()
    }

    #[test]
    fn advice_is_in_the_programs_layout() {
        let rest =
            "\"congestion_control\": \"reno\", \"pacing_mbps\": 8.0, \"full_mode\": \"rate\",";
        let answer = answer("congestion-control", rest);
        let advice = asker(&[]).advice(&answer, PEER, 5_000_000_000);
        let mut expected = b"reno".to_vec();
        expected.resize(16, 0);
        expected.extend(1_000_000u32.to_ne_bytes());
        expected.extend([0; 12]);
        expected.extend(7_000_000_000u64.to_ne_bytes());
        expected.extend(37_000_000_000u64.to_ne_bytes());
        expected.extend(1u32.to_ne_bytes());
        expected.extend([0; 4]);
        assert_eq!(advice, expected);
    }

    #[test]
    fn congestion_control_is_off_only_where_the_operator_allows_it() {
        // The kernel's own stands for nocc, which may not be loaded here.
        let rest = "\"congestion_control\": \"reno\", \"pacing_mbps\": 8.0,";
        let off = answer("no-congestion-control", rest);
        let inside = asker(&["10.0.0.0/8"]).advice(&off, PEER, 0);
        assert_eq!(name(&inside), "reno");
        let outside = asker(&["192.0.2.0/24"]).advice(&off, PEER, 0);
        let standard = fairwind_kernel::sysctl(STANDARD).unwrap();
        assert_eq!(name(&outside), standard.trim());
        assert_eq!(outside[16..20], [0; 4]);
    }
}
