//! Runs of users without rights: their connections are taken care of by the agent.
//!
//! A run begins with a request of `fairwind run`, which is then moved to a control group of its own, below the one that it is
//! in, and starts the command there. It ends with another request, or with that process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use fairwind_cc::kernel::{Choice, allowed, is_nocc};
use fairwind_cc::native;
use fairwind_kernel::{Process, descriptors_left};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::places::ADMITTED_OF_MANY;
use super::refusal::Refusal;
use crate::advised::Advisor;
use crate::attended::{Attended, Ended, Wanted};
use crate::control_group::{ControlGroup, GroupError};

/// Runs at a time.
const RUNS: usize = 64;
/// Descriptors that a run may need.
const DESCRIPTORS: usize = 64;
/// Descriptors that runs leave for the rest of the agent: two for each connection, some to list the connections of the host.
const DESCRIPTORS_LEFT: usize = 2 * ADMITTED_OF_MANY + 128;

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
    /// Whether the connections follow the advisor of the agent's policy.
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
    /// What is wanted, if everybody may have it, with the address of the advisor.
    fn wanted(&self, advisor: &str) -> Result<Wanted, String> {
        let control = self.congestion_control.as_deref();
        if control.is_none() && !self.parameters.is_empty() {
            return Err("parameters go with congestion_control".to_owned());
        }
        if self.advised && (control.is_some() || self.hold) {
            return Err("advised goes with neither congestion_control nor hold".to_owned());
        }
        if self.max_rate == Some(0) {
            return Err("max_rate is at least 1 byte/s".to_owned());
        }
        Ok(Wanted {
            control: control.map(|name| self.choice(name)).transpose()?,
            is_forced: self.force,
            max_rate: self.max_rate,
            is_lower_effort: self.lower_effort,
            is_held: self.hold,
            advisor: self.advised.then(|| Advisor {
                url: advisor.to_owned(),
                allow_nocc: Vec::new(),
            }),
        })
    }

    fn choice(&self, name: &str) -> Result<Choice, String> {
        if is_nocc(name) {
            return Err("nocc is for root alone".to_owned());
        }
        let own = native::find(name);
        if !self.parameters.is_empty() {
            let own = own.ok_or_else(|| {
                format!("parameters are for fairwind's own congestion controls, not for {name}")
            })?;
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
    latest: u64,
    /// Those whose threads have not ended, by number.
    running: BTreeMap<u64, Running>,
}

#[derive(Debug)]
struct Running {
    process: Arc<Process>,
    /// Whether it has all descriptors that it needs.
    has_begun: bool,
    must_end: Arc<AtomicBool>,
    /// Until somebody waits for it.
    ended: Option<oneshot::Receiver<Result<Ended, String>>>,
}

/// One of the [`RUNS`], until this is dropped.
#[derive(Debug)]
struct Place {
    runs: Runs,
    run: u64,
    must_end: Arc<AtomicBool>,
}

impl Place {
    /// Its run has begun.
    fn begun(&self) {
        if let Some(running) = self.runs.state().running.get_mut(&self.run) {
            running.has_begun = true;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.runs.state().running.remove(&self.run);
    }
}

impl Runs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a run of the process, which tells there how it has ended.
    fn place(
        &self,
        process: Arc<Process>,
        ended: oneshot::Receiver<Result<Ended, String>>,
    ) -> Result<Place, Refusal> {
        let mut state = self.state();
        if state.running.len() >= RUNS {
            let all = format!("{RUNS} runs are going on already");
            return Err(Refusal::Unavailable(all));
        }
        let beginning = state.running.values().filter(|run| !run.has_begun);
        if !is_room_for(beginning.count() + 1, descriptors_left()) {
            return Err(Refusal::Unavailable(TOO_FEW.to_owned()));
        }
        state.latest += 1;
        let (run, must_end) = (state.latest, Arc::new(AtomicBool::new(false)));
        let running = Running {
            process,
            has_begun: false,
            must_end: Arc::clone(&must_end),
            ended: Some(ended),
        };
        state.running.insert(run, running);
        Ok(Place {
            runs: self.clone(),
            run,
            must_end,
        })
    }

    /// Begins a run of the process, whose connections follow the advisor at this address if it asks for that.
    pub(super) async fn begin(
        &self,
        process: Option<&Arc<Process>>,
        request: &RunRequest,
        advisor: &str,
    ) -> Result<RunBegun, Refusal> {
        let wanted = request.wanted(advisor).map_err(Refusal::Mistake)?;
        let process = process.cloned().ok_or_else(|| {
            let why = "the process has ended, or is in a namespace that the agent does not see";
            Refusal::Unavailable(why.to_owned())
        })?;
        let (tell_begun, begun) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        // Whether or not who asks waits for the answer, it is the thread's.
        let place = self.place(process.clone(), ended)?;
        let run = place.run;
        let care = move || match start(&process, &wanted) {
            Ok(attended) => {
                place.begun();
                // Who is gone does not know its number.
                let is_known = tell_begun.send(Ok(())).is_ok();
                let must_end = || !is_known || place.must_end.load(Ordering::Relaxed);
                let is_over = || must_end() || process.has_ended();
                let _ = tell_ended.send(attend(attended, &process, is_over));
                drop(place);
            }
            Err(error) => {
                drop(place);
                // What the kernel then says may be anything.
                let error = match is_room_for(1, descriptors_left()) {
                    true => error,
                    false => TOO_FEW.to_owned(),
                };
                let _ = tell_begun.send(Err(error));
            }
        };
        let thread = thread::Builder::new().name("run".to_owned()).spawn(care);
        thread.map_err(|error| Refusal::Unavailable(error.to_string()))?;
        let ending = Err("the agent is ending".to_owned());
        let begun = begun.await.unwrap_or(ending);
        begun.map_err(Refusal::Unavailable)?;
        Ok(RunBegun { run })
    }

    /// Ends a run of the process; none if there is no such run.
    pub(super) async fn end(
        &self,
        run: u64,
        process: Option<&Arc<Process>>,
    ) -> Option<Result<Ended, String>> {
        let ended = {
            let mut state = self.state();
            let running = state.running.get_mut(&run)?;
            // An earlier agent may have had a run of this number.
            if !process?.is(&running.process) {
                return None;
            }
            running.must_end.store(true, Ordering::Relaxed);
            running.ended.take()?
        };
        let lost = Err("the run has been lost".to_owned());
        Some(ended.await.unwrap_or(lost))
    }
}

/// Why a run is refused for which there is no room.
const TOO_FEW: &str =
    "too few descriptors are left for another run (LimitNOFILE= of the agent's service)";

/// Whether so many descriptors are enough for so many runs to begin.
fn is_room_for(runs: usize, descriptors: u64) -> bool {
    descriptors >= (DESCRIPTORS_LEFT + runs * DESCRIPTORS) as u64
}

/// Begins to take care of the process in a group of its own.
fn start(process: &Process, wanted: &Wanted) -> Result<Attended, String> {
    let group = |error: GroupError| error.to_string();
    let own = ControlGroup::make_for(process.number()).map_err(group)?;
    let attended = Attended::start(own, wanted).map_err(|error| error.to_string())?;
    // That has taken its time.
    if process.has_ended() {
        return Err("the process has ended".to_owned());
    }
    attended.group().admit(process.number()).map_err(group)?;
    Ok(attended)
}

fn attend(
    mut attended: Attended,
    process: &Process,
    is_over: impl Fn() -> bool,
) -> Result<Ended, String> {
    while !is_over() {
        attended.step();
    }
    if !process.has_ended() {
        // It is not part of the command.
        let _ = attended.group().release(process.number());
    }
    attended.finish().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::geteuid;

    use super::super::peer::of_user;
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
        assert_eq!(request.wanted(""), Ok(wanted));
        let nothing = RunRequest::default().wanted("");
        assert_eq!(nothing, Ok(Wanted::default()));
    }

    #[test]
    fn the_advisor_is_the_agents() {
        let wanted = Wanted {
            advisor: Some(Advisor {
                url: "http://127.0.0.1:1".to_owned(),
                allow_nocc: vec!["::/0".parse().unwrap()],
            }),
            ..Wanted::default()
        };
        let request = RunRequest::from(&wanted);
        let advisor = request.wanted("http://192.0.2.1:8649").unwrap().advisor;
        assert_eq!(
            advisor,
            Some(Advisor {
                url: "http://192.0.2.1:8649".to_owned(),
                allow_nocc: Vec::new(),
            })
        );
    }

    #[test]
    fn not_everything_is_for_everybody() {
        let refused = |name: &str| {
            let request = RunRequest {
                congestion_control: Some(name.to_owned()),
                ..RunRequest::default()
            };
            request.wanted("").unwrap_err()
        };
        assert!(refused("nocc").contains("root"));
        assert!(refused("fw_nocc").contains("root"));
        assert!(refused("no-such-control").contains("tcp_allowed"));
    }

    #[test]
    fn what_the_command_line_refuses_is_refused_here() {
        let refused = |request: &str| {
            let request: RunRequest = serde_json::from_str(request).unwrap();
            request.wanted("").unwrap_err()
        };
        for (request, word) in [
            ("{\"max_rate\": 0}", "max_rate"),
            ("{\"parameters\": {\"delay\": 1}}", "congestion_control"),
            (
                "{\"congestion_control\": \"cubic\", \"parameters\": {\"delay\": 1}}",
                "cubic",
            ),
            ("{\"advised\": true, \"hold\": true}", "hold"),
        ] {
            let said = refused(request);
            assert!(said.contains(word), "{request}: {said}");
        }
    }

    #[test]
    fn runs_leave_descriptors_for_the_agent() {
        // 2 * 128 + 128 are left, and each run may need 64.
        assert!(is_room_for(1, 448) && !is_room_for(1, 447));
        assert!(is_room_for(10, 1024) && !is_room_for(11, 1024));
    }

    fn process(number: u32) -> Arc<Process> {
        Arc::new(of_user(number, geteuid().as_raw()).unwrap())
    }

    #[test]
    fn there_is_room_for_another_run_when_one_has_ended_whoever_knows() {
        let runs = Runs::default();
        let place = || {
            let place = runs.place(process(std::process::id()), oneshot::channel().1)?;
            place.begun();
            Ok(place)
        };
        let mut places: Vec<Place> = (0..RUNS).map(|_| place().unwrap()).collect();
        let Err(Refusal::Unavailable(why)) = place() else {
            panic!("nothing is wrong with the request")
        };
        assert_eq!(why, "64 runs are going on already");
        places.pop();
        places.push(place().unwrap());
        assert!(place().is_err());
    }

    #[test]
    fn a_run_is_ended_by_its_process_alone() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let (own, other) = (process(std::process::id()), process(child.id()));
        let runs = Runs::default();
        let (tell_ended, ended) = oneshot::channel();
        let place = runs.place(own.clone(), ended).unwrap();
        tell_ended
            .send(Err("watched no longer".to_owned()))
            .unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let end = |run: u64, process: Option<&Arc<Process>>| {
            let ended = runtime.block_on(runs.end(run, process));
            ended.map(|ended| ended.unwrap_err())
        };
        assert_eq!(end(1, Some(&other)), None);
        assert_eq!(end(1, None), None);
        assert_eq!(end(2, Some(&own)), None);
        assert!(!place.must_end.load(Ordering::Relaxed));
        assert_eq!(end(1, Some(&own)).unwrap(), "watched no longer");
        assert!(place.must_end.load(Ordering::Relaxed));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
