//! Runs of users without rights: their connections are taken care of by the agent.
//!
//! A run begins with a request of `fairwind run`, which is then moved to a control group of its own, below the one that it is
//! in, and starts the command there. It ends with another request, or with that process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use fairwind_cc::kernel::{Choice, allowed, is_nocc};
use fairwind_cc::native;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use fairwind_advice_client::DEFAULT_URL;

use crate::advised::Advisor;
use crate::attended::{Attended, Ended, Wanted};
use crate::control_group::ControlGroup;

/// Runs at a time.
const RUNS: usize = 64;

/// What is asked for the connections of a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// Congestion control: one of fairwind's own but `nocc`, or one that the kernel allows to everybody.
    pub congestion_control: Option<String>,
    /// Parameters of it, in their units.
    #[serde(default)]
    pub parameters: BTreeMap<String, u32>,
    /// Also for connections whose program chooses another.
    #[serde(default)]
    pub force: bool,
    /// Largest rate of each connection, bytes a second.
    pub max_rate: Option<u32>,
    /// The mark of the Lower-Effort service.
    #[serde(default)]
    pub lower_effort: bool,
    /// Whether what the connections receive takes only what others leave.
    #[serde(default)]
    pub hold: bool,
    /// Whether the connections follow the advisor of this host, at its usual address.
    #[serde(default)]
    pub advised: bool,
}

/// A run that has begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunBegun {
    /// Its number, for the request that ends it.
    pub run: u64,
}

impl From<&Wanted> for RunRequest {
    fn from(wanted: &Wanted) -> RunRequest {
        let (congestion_control, parameters) = match &wanted.control {
            None => (None, BTreeMap::new()),
            Some(Choice::Named(name)) => (Some(name.clone()), BTreeMap::new()),
            Some(Choice::Own(parameters)) => {
                let control = parameters.control();
                let values = control.parameters().iter().zip(parameters.values());
                let values = values.map(|(one, value)| (one.name().to_owned(), *value));
                (Some(control.name().to_owned()), values.collect())
            }
        };
        RunRequest {
            congestion_control,
            parameters,
            force: wanted.is_forced,
            max_rate: wanted.max_rate,
            lower_effort: wanted.is_lower_effort,
            hold: wanted.is_held,
            advised: wanted.advisor.is_some(),
        }
    }
}

impl RunRequest {
    /// What is wanted, if everybody may have it.
    fn wanted(&self) -> Result<Wanted, String> {
        let control = self.congestion_control.as_deref();
        Ok(Wanted {
            control: control.map(|name| self.choice(name)).transpose()?,
            is_forced: self.force,
            max_rate: self.max_rate,
            is_lower_effort: self.lower_effort,
            is_held: self.hold,
            advisor: self.advised.then(|| Advisor {
                url: DEFAULT_URL.to_owned(),
                allow_nocc: Vec::new(),
            }),
        })
    }

    fn choice(&self, name: &str) -> Result<Choice, String> {
        if is_nocc(name) {
            return Err("nocc is for root alone".to_owned());
        }
        let own = native::find(name);
        if let (Some(own), false) = (own, self.parameters.is_empty()) {
            let mut parameters = own.default_parameters();
            for (name, value) in &self.parameters {
                let set = parameters.set(name, i64::from(*value));
                set.map_err(|error| error.to_string())?;
            }
            return Ok(Choice::Own(parameters));
        }
        let is_allowed = allowed().is_ok_and(|allowed| allowed.iter().any(|one| one == name));
        match own.is_some() || is_allowed {
            true => Ok(Choice::Named(name.to_owned())),
            false => Err(format!(
                "{name} is for root alone: net.ipv4.tcp_allowed_congestion_control does not have it"
            )),
        }
    }
}

/// The runs that the agent takes care of.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    running: BTreeMap<u64, Running>,
}

#[derive(Debug)]
struct Running {
    user: u32,
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<Result<Ended, String>>,
}

impl Runs {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run of the process, which belongs to the user.
    pub(super) async fn begin(
        &self,
        process: u32,
        user: u32,
        request: &RunRequest,
    ) -> Result<RunBegun, String> {
        let wanted = request.wanted()?;
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("the process is in a namespace that the agent does not see")?;
        if self.state().running.len() >= RUNS {
            return Err(format!("{RUNS} runs are going on already"));
        }
        let alive = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| error.to_string())?;
        let stop = Arc::new(AtomicBool::new(false));
        let (tell_begun, begun) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        let must_stop = Arc::clone(&stop);
        let care = move || {
            let attended = ControlGroup::make_for(process).map_err(|error| error.to_string());
            let attended = attended.and_then(|group| {
                let attended = Attended::start(group, &wanted);
                let attended = attended.map_err(|error| error.to_string())?;
                let admitted = attended.group().admit(process);
                admitted.map_err(|error| error.to_string())?;
                Ok(attended)
            });
            match attended {
                Ok(attended) => {
                    let _ = tell_begun.send(Ok(()));
                    let is_over = || must_stop.load(Ordering::Relaxed) || has_ended(&alive);
                    let _ = tell_ended.send(attend(attended, process, is_over));
                }
                Err(error) => {
                    let _ = tell_begun.send(Err(error));
                }
            }
        };
        let thread = thread::Builder::new().name("run".to_owned()).spawn(care);
        thread.map_err(|error| error.to_string())?;
        begun
            .await
            .unwrap_or_else(|_| Err("the agent is ending".to_owned()))?;
        let mut state = self.state();
        // Those whose process has ended without a word.
        state.running.retain(|_, running| running.ended.is_empty());
        state.next += 1;
        let run = state.next;
        state.running.insert(run, Running { user, stop, ended });
        Ok(RunBegun { run })
    }

    /// Ends a run of the user; none if there is no such run.
    pub(super) async fn end(&self, run: u64, user: u32) -> Option<Result<Ended, String>> {
        let running = {
            let mut state = self.state();
            let is_own = state.running.get(&run)?.user == user;
            is_own.then(|| state.running.remove(&run))??
        };
        running.stop.store(true, Ordering::Relaxed);
        let lost = Err("the run has been lost".to_owned());
        Some(running.ended.await.unwrap_or(lost))
    }
}

fn attend(
    mut attended: Attended,
    process: u32,
    is_over: impl Fn() -> bool,
) -> Result<Ended, String> {
    while !is_over() {
        attended.step().map_err(|error| error.to_string())?;
    }
    // It is not part of the command; if it is gone, it need not be moved.
    let _ = attended.group().release(process);
    attended.finish().map_err(|error| error.to_string())
}

fn has_ended(process: &impl std::os::fd::AsFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_comes_back_as_what_is_wanted() {
        let mut parameters = native::find("fairwind").unwrap().default_parameters();
        parameters.set("delay", 1234).unwrap();
        let wanted = Wanted {
            control: Some(Choice::Own(parameters)),
            max_rate: Some(1000),
            is_held: true,
            ..Wanted::default()
        };
        let request = RunRequest::from(&wanted);
        assert_eq!(request.parameters["delay"], 1234);
        assert_eq!(request.wanted(), Ok(wanted));
        assert_eq!(RunRequest::default().wanted(), Ok(Wanted::default()));
    }

    #[test]
    fn not_everything_is_for_everybody() {
        let refused = |name: &str| {
            let request = RunRequest {
                congestion_control: Some(name.to_owned()),
                ..RunRequest::default()
            };
            request.wanted().unwrap_err()
        };
        assert!(refused("nocc").contains("root"));
        assert!(refused("fw_nocc").contains("root"));
        assert!(refused("no-such-control").contains("tcp_allowed"));
    }
}
