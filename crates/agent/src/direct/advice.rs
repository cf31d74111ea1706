//! What an advisor says of the peers of connections: asked in a thread of its own, and kept by the prefixes for which its answers
//! hold.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use fairwind_advice::Mode;
use fairwind_advice::wire::Answer;
use fairwind_advice_client::{Client, ClientError};
use fairwind_cc::kernel::Destination;
use fairwind_origin::Prefix;
use fairwind_trace::filter::Network;
use fairwind_transfer::advised::{Event, Orders};

use super::plan::{present, reason, substitute};
use crate::advised::Advisor;
use crate::answers::{Answers, Held, Times};
use crate::unfollowed::Unfollowed;

/// A peer about which there is no answer is asked about again after this.
const RETRY_NS: u64 = 1_000_000_000;
/// Most prefixes that are known, and most peers that are waited for.
const MOST: usize = 1 << 12;

/// The answers.
#[derive(Debug)]
pub(super) struct Advice {
    client: Client,
    allow_nocc: Vec<Network>,
    state: Mutex<State>,
    is_asked: Condvar,
}

#[derive(Debug)]
struct State {
    answers: Answers<Known>,
    /// Peers to ask about, and the number of the answer that there was about them; 0: none.
    questions: BTreeMap<IpAddr, u64>,
    /// When to ask again about others of which nothing is known.
    unanswered: HashMap<IpAddr, u64>,
    /// Whether an answer is waited for now.
    is_asking: bool,
    /// Of the latest answer.
    number: u64,
    unfollowed: Unfollowed,
}

/// Orders, and their number.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub number: u64,
    pub orders: Arc<Orders>,
}

impl Advice {
    /// Of this advisor, of which nothing is asked yet.
    ///
    /// # Errors
    ///
    /// If its address is none, or the environment's token is invalid.
    pub(super) fn of(advisor: &Advisor) -> Result<Advice, ClientError> {
        Ok(Advice {
            client: Client::new(&advisor.url)?.with_token_of_environment()?,
            allow_nocc: advisor.allow_nocc.clone(),
            state: Mutex::new(State {
                answers: Answers::at_most(MOST),
                questions: BTreeMap::new(),
                unanswered: HashMap::new(),
                is_asking: false,
                number: 0,
                unfollowed: Unfollowed::default(),
            }),
            is_asked: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is advised of a peer now. Lets the advisor be asked if it is time to.
    pub(super) fn on(&self, peer: IpAddr, now_ns: u64) -> Option<Known> {
        let mut state = self.state();
        let State {
            answers,
            questions,
            unanswered,
            ..
        } = &mut *state;
        let held = answers.of(&host(peer));
        let number = held.as_ref().map_or(0, |held| held.value.number);
        let held = held.filter(|held| now_ns < held.times.ends_ns);
        let known = held.as_ref().map(|held| held.value.clone());
        let asks_ns = match held {
            Some(held) => &mut held.times.asks_ns,
            None => {
                if unanswered.len() >= MOST {
                    unanswered.retain(|_, asks_ns| now_ns < *asks_ns);
                }
                unanswered.entry(peer).or_default()
            }
        };
        if *asks_ns <= now_ns && questions.len() < MOST {
            *asks_ns = now_ns + RETRY_NS;
            questions.insert(peer, number);
            self.is_asked.notify_one();
        }
        known
    }

    /// Whether congestion control may be off to a peer.
    pub(super) fn allows_nocc(&self, peer: IpAddr) -> bool {
        let mut networks = self.allow_nocc.iter();
        networks.any(|network| network.contains(peer))
    }

    /// Takes note of what was not followed.
    pub(super) fn note(&self, events: &[Event]) {
        for event in events {
            let key = match event {
                Event::Refused {
                    what,
                    wanted,
                    reason,
                    ..
                } => format!("{what} {wanted} {reason}"),
                Event::Bounded { what, .. } => what.to_string(),
                _ => continue,
            };
            self.state().unfollowed.note(key, event.to_string());
        }
    }

    /// What was not followed, and why.
    pub(super) fn left_out(&self) -> Vec<String> {
        let mut state = self.state();
        if state.is_asking {
            let said = format!("advice: {}: no answer has come yet", self.client.url());
            state.unfollowed.note("advice", said);
        }
        state.unfollowed.list()
    }

    /// Waits for a question, asks, and calls with the destinations of the answer, again and again.
    pub(super) fn ask(&self, answered: impl Fn(Prefix)) -> ! {
        loop {
            let peer = self.next();
            self.state().is_asking = true;
            let answer = self.client.advice(&peer.to_string(), None);
            let mut state = self.state();
            state.is_asking = false;
            let answer = answer.map_err(|error| error.to_string());
            match answer.and_then(|answer| state.follow(&answer, peer)) {
                Ok(prefix) => {
                    drop(state);
                    answered(prefix);
                }
                Err(error) => state.unfollowed.note("advice", format!("advice: {error}")),
            }
        }
    }

    /// The next peer to ask about. Meanwhile, an answer about another may have been one about it.
    fn next(&self) -> IpAddr {
        let mut state = self.state();
        loop {
            while let Some((peer, number)) = state.questions.pop_first() {
                let held = state.answers.of(&host(peer));
                if held.is_none_or(|held| held.value.number <= number) {
                    return peer;
                }
            }
            let waited = self.is_asked.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Keeps what an answer about a peer orders, and returns for whom that is.
    fn follow(&mut self, answer: &Answer, peer: IpAddr) -> Result<Prefix, String> {
        let now_ns = fairwind_kernel::monotonic_ns();
        let times = Times::of(answer, now_ns);
        let orders = Orders::of_answer(answer, times.ends_ns);
        let mut orders = orders.map_err(|what| format!("it makes no sense: {what}"))?;
        if answer.advice.mode == Mode::Background {
            orders = self.in_background(orders);
        }
        self.number += 1;
        let value = Known {
            number: self.number,
            orders: Arc::new(orders),
        };
        let prefix = answer.holds_for(peer);
        self.answers
            .hold(&host(peer), seen(prefix), Held { value, times }, now_ns);
        self.unanswered.remove(&peer);
        Ok(prefix)
    }

    /// The same with another congestion control that yields, if the one of the orders is not to be had.
    fn in_background(&mut self, orders: Orders) -> Orders {
        let name = orders.control().unwrap_or_default().to_owned();
        let Err(refusal) = present(&name) else {
            return orders;
        };
        let Some(other) = substitute(present) else {
            return orders;
        };
        let said = format!("{}; {other} is in its place", reason(&name, &refusal));
        self.unfollowed.note(name, said);
        orders.with_control(other)
    }
}

/// Nobody else.
fn host(peer: IpAddr) -> Destination {
    seen(Prefix::host(peer))
}

/// In whatever network namespace.
fn seen(prefix: Prefix) -> Destination {
    Destination::of(0, prefix)
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use fairwind_testing::advisor::{Reply, TestAdvisor};
    use fairwind_testing::wait_until;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn answer(again_s: f64, rest: &str) -> Answer {
        let text = format!(
            "{{\"mode\": \"congestion-control\", {rest} \"next_advice\": \"2026-01-01T00:00:00Z\", \
             \"model\": \"linear\", \"days_used\": 0, \"reason\": \"\", \"ask_again_after_s\": {again_s}}}"
        );
        serde_json::from_str(&text).unwrap()
    }

    fn advice() -> Advice {
        Advice::of(&Advisor {
            url: "http://127.0.0.1:1".to_owned(),
            allow_nocc: vec!["192.0.2.0/24".parse().unwrap()],
        })
        .unwrap()
    }

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn one_answer_is_for_all_of_its_prefix_and_one_peer_is_asked_about() {
        let advice = advice();
        let now = fairwind_kernel::monotonic_ns();
        assert!(advice.on(peer(1), now).is_none() && advice.on(peer(2), now).is_none());
        assert_eq!(advice.state().questions.len(), 2);
        assert_eq!(advice.next(), peer(1));
        let prefix = answer(10.0, "\"prefix\": \"192.0.2.0/24\",");
        let of = advice.state().follow(&prefix, peer(1)).unwrap();
        assert_eq!(of.to_string(), "192.0.2.0/24");
        let numbers = [1, 2, 3].map(|last| advice.on(peer(last), now).unwrap().number);
        assert_eq!(numbers, [1; 3]);
        // The other question has been answered.
        let other = IpAddr::from([198, 51, 100, 1]);
        assert!(advice.on(other, now).is_none());
        assert_eq!(advice.next(), other);
        // Later, one asks for all; the answer holds a while.
        let due = now + 11 * SECOND;
        for last in [7, 8] {
            assert!(advice.on(peer(last), due).is_some());
        }
        assert_eq!(advice.next(), peer(7));
        assert!(advice.state().questions.is_empty());
        assert!(
            advice.on(peer(1), now + 41 * SECOND).is_none(),
            "it is stale"
        );
    }

    #[test]
    fn that_an_answer_has_not_come_yet_is_told() {
        let silent = TestAdvisor::answering(vec![Reply::Silence]);
        let client = Client::new(&silent.url()).unwrap();
        let client = client.with_deadline(Duration::from_secs(1000));
        let advice = Arc::new(Advice { client, ..advice() });
        let asks = Arc::clone(&advice);
        thread::spawn(move || {
            asks.ask(|_| {});
        });
        assert!(advice.left_out().is_empty());
        assert!(
            advice
                .on(peer(1), fairwind_kernel::monotonic_ns())
                .is_none()
        );
        wait_until("it is asked", || !silent.asked().is_empty());
        let said = format!("advice: {}: no answer has come yet", silent.url());
        assert_eq!(advice.left_out(), [said]);
    }

    #[test]
    fn what_makes_no_sense_is_no_answer() {
        let advice = advice();
        let now = fairwind_kernel::monotonic_ns();
        let wrong = answer(10.0, "\"pacing_mbps\": 0.0,");
        let error = advice.state().follow(&wrong, peer(1)).unwrap_err();
        assert_eq!(error, "it makes no sense: pacing at 0 Mbit/s");
        assert!(advice.on(peer(1), now).is_none());
        let elsewhere = answer(10.0, "\"prefix\": \"198.51.100.0/24\",");
        advice.state().follow(&elsewhere, peer(1)).unwrap();
        assert!(advice.on(peer(1), now).is_some());
        assert!(advice.on(IpAddr::from([198, 51, 100, 1]), now).is_none());
    }

    #[test]
    fn nocc_is_allowed_in_the_operators_networks_alone() {
        let advice = advice();
        assert!(advice.allows_nocc(peer(1)) && !advice.allows_nocc([10, 0, 0, 1].into()));
    }
}
