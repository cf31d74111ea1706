//! The agent: takes care of a host's connections by a policy file until it is stopped.

mod lock;
mod peer;
mod places;
mod refusal;
mod runs;
mod server;
mod status;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use fairwind_cc::kernel::{Choice, LoadError, Provided, available, provide};
use fairwind_scenario::Diagnostic;
use fairwind_trace::kernel::{TraceError, check_requirements};

use crate::control_group;
use crate::host::{self, Counts, Host, HostError, Orders, Pin};
use crate::policy::{self, Policy};

use refusal::Refusal;

pub use lock::LockError;
pub use runs::{RunBegun, RunRequest};
pub use server::{Access, Handle, Request, ServeError, serve};
pub use status::{LiveConnection, RuleStatus, Status};

/// Time between passes over the connections, while a rule asks for bytes or age.
const PASSES: Duration = Duration::from_secs(1);
/// Time between looks whether the kernel still has the congestion controls.
const LOOKS: Duration = Duration::from_secs(5);
/// Time between the writings of the file with metrics.
const METRICS: Duration = Duration::from_secs(15);

/// What an agent does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The policy file.
    pub policy: PathBuf,
    /// The control group of whose connections it takes care; by default all of the host.
    pub group: Option<PathBuf>,
    /// Whether it changes nothing and only tells.
    pub is_dry: bool,
    /// File in which metrics are kept, in the text format of Prometheus.
    pub metrics: Option<PathBuf>,
}

/// Why there is no agent, or no other policy.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A right or something of the kernel is missing.
    #[error("{0}")]
    Requirement(#[from] TraceError),
    /// The policy has a mistake.
    #[error("{0}")]
    Policy(#[from] Diagnostic),
    /// A file cannot be read, or is no control group.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A congestion control is not to be had.
    #[error("rule \"{rule}\": congestion control: {source}")]
    Control {
        /// The rule that asks for it.
        rule: String,
        /// Why.
        source: LoadError,
    },
    /// No control groups of version 2 are mounted.
    #[error("no control groups of version 2 are mounted: mount -t cgroup2 none /sys/fs/cgroup")]
    NoGroups,
    /// The folder is something else.
    #[error("{}: no control group of version 2", .0.display())]
    NotAGroup(PathBuf),
    /// Another agent is there.
    #[error("{0}")]
    Lock(#[from] LockError),
    /// The kernel refuses.
    #[error("{0}")]
    Host(#[from] HostError),
    /// There is nothing left of which the agent could take care.
    #[error("{}: the control group is gone, and so are all of its connections", .0.display())]
    Gone(PathBuf),
    /// The kernel refuses a part, when the rules have changed already.
    #[error("the rules have changed, but not everything follows them: {0}")]
    Incomplete(#[source] HostError),
}

impl AgentError {
    /// Whether the user has to mend something: the policy, or what has been given.
    pub fn is_mistake(&self) -> bool {
        match self {
            AgentError::Policy(_) | AgentError::File { .. } | AgentError::NotAGroup(_) => true,
            AgentError::Control { source, .. } => matches!(source, LoadError::Unknown { .. }),
            _ => false,
        }
    }
}

impl From<AgentError> for Refusal {
    fn from(error: AgentError) -> Refusal {
        let text = error.to_string();
        match error.is_mistake() {
            true => Refusal::Mistake(text),
            false => Refusal::Unavailable(text),
        }
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> AgentError {
    move |source| AgentError::File {
        path: path.to_owned(),
        source,
    }
}

/// The congestion control of a rule, kept in the kernel while it is here.
#[derive(Debug)]
struct Control {
    choice: Choice,
    provided: Provided,
}

/// An agent.
#[derive(Debug)]
pub struct Agent {
    options: Options,
    policy: Policy,
    /// By their rules' choices.
    controls: Vec<Control>,
    group: u64,
    pin: Pin,
    host: Host,
    /// Whether everything has been given back, until the policy is read again.
    is_undone: bool,
    /// Whether the latest pass has failed, which has been said.
    has_not_passed: bool,
    /// Whether it has been said that a congestion control is missing.
    is_one_missing: bool,
    /// Whether it has been said that metrics cannot be written.
    has_no_metrics: bool,
    /// By rule, what became of connections under earlier policies.
    earlier: BTreeMap<String, Counts>,
    reloads: u64,
    began: Instant,
    _lock: lock::Lock,
}

impl Agent {
    /// Begins to take care of the connections: of new ones and of those that are there.
    ///
    /// # Errors
    ///
    /// If the policy has a mistake, another agent is there, or a right or something of the kernel is missing. Nothing has
    /// been changed then.
    pub fn start(options: Options) -> Result<Agent, AgentError> {
        let policy = load(&options.policy)?;
        check_requirements()?;
        let mut controls = Vec::new();
        provide_all(&policy, &mut controls)?;
        let root = || fairwind_kernel::mounted("cgroup2").ok_or(AgentError::NoGroups);
        let path = options.group.clone().map_or_else(root, Ok)?;
        let opened = File::open(&path).map_err(at(&path))?;
        if !path.join("cgroup.procs").exists() {
            return Err(AgentError::NotAGroup(path));
        }
        let group = opened.metadata().map_err(at(&path))?.ino();
        let lock = lock::Lock::of_group(group)?;
        let pin = Pin::of_group(group);
        if let Some(missing) = pin.missing() {
            tracing::warn!("what connections had before does not outlive the agent: {missing}");
        }
        let names = names(&policy, &controls);
        let host = Host::attach(&opened, &orders(&options, group, &policy, &names), &pin)?;
        host.pass()?;
        Ok(Agent {
            options,
            policy,
            controls,
            group,
            pin,
            host,
            is_undone: false,
            has_not_passed: false,
            is_one_missing: false,
            has_no_metrics: false,
            earlier: BTreeMap::new(),
            reloads: 0,
            began: Instant::now(),
            _lock: lock,
        })
    }

    /// Takes care until told to stop. Connections keep what they have been given, and what they had before is kept in the
    /// kernel: for [`undo`], and for the next agent.
    ///
    /// # Errors
    ///
    /// [`AgentError::Gone`] when the control group and all of its connections are.
    pub fn run(&mut self, requests: &Receiver<Request>) -> Result<(), AgentError> {
        let mut due = [PASSES, LOOKS, METRICS].map(|interval| Instant::now() + interval);
        self.write_metrics();
        loop {
            let next = due.iter().min().expect("there are some");
            let wait = next.saturating_duration_since(Instant::now());
            match requests.recv_timeout(wait) {
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(request) => self.answer(request),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if now >= due[0] {
                due[0] = now + PASSES;
                if self.host.is_gone() {
                    let group = self.options.group.clone().unwrap_or_default();
                    return Err(AgentError::Gone(group));
                }
                let mut rules = self.policy.rules.iter();
                if self.has_not_passed
                    || rules.any(|rule| rule.conditions.is_met_later() || rule.action.is_advised)
                {
                    self.pass();
                }
            }
            if now >= due[1] {
                due[1] = now + LOOKS;
                self.look_after_controls();
                let counts = self.host.counts(self.policy.rules.len());
                if counts.iter().any(|counts| counts.refused > 0) {
                    // The kernel may have been without a control for a moment.
                    self.pass();
                }
            }
            if now >= due[2] {
                due[2] = now + METRICS;
                self.write_metrics();
            }
        }
    }

    /// Lets the connections that are there follow the policy. If that fails, as where no descriptor is free, it is tried
    /// again with the next pass.
    fn pass(&mut self) {
        match self.host.pass() {
            Ok(()) if self.has_not_passed => {
                tracing::info!("connections follow the policy again");
                self.has_not_passed = false;
            }
            Ok(()) => {}
            Err(error) if !self.has_not_passed => {
                tracing::error!("connections do not follow the policy for now: {error}");
                self.has_not_passed = true;
            }
            Err(_) => {}
        }
    }

    fn answer(&mut self, request: Request) {
        match request {
            Request::Stop => {}
            Request::Reload(reply) => {
                let outcome = self.reload();
                match &outcome {
                    Ok(()) => tracing::info!("{}: read anew", self.options.policy.display()),
                    Err(error @ AgentError::Incomplete(_)) => tracing::error!("{error}"),
                    Err(error) => tracing::error!("{error}\nthe policy stays as it was"),
                }
                reply.send(outcome.map(|()| self.status()).map_err(Refusal::from));
            }
            Request::Undo(reply) => {
                let outcome = self.undo();
                match &outcome {
                    Ok(()) => tracing::info!(
                        "everything has been given back, until the policy is read anew"
                    ),
                    Err(error) => tracing::error!("not everything has been given back: {error}"),
                }
                reply.send(outcome.map(|()| self.status()).map_err(Refusal::from));
            }
            Request::Status { live, reply } => {
                let status = self.status();
                let outcome = match live {
                    true => self.live(status).map_err(AgentError::from),
                    false => Ok(status),
                };
                reply.send(outcome.map_err(Refusal::from));
            }
            Request::Metrics(reply) => reply.send(Ok(self.status().metrics())),
            Request::Advisor(reply) => reply.send(Ok(self.policy.advisor.url.clone())),
        }
    }

    /// Reads the policy anew. A mistake changes nothing. There is no moment without a policy.
    ///
    /// # Errors
    ///
    /// If the policy has a mistake, or the kernel refuses it; [`AgentError::Incomplete`] if it refuses a part, and the
    /// policy is another already.
    pub fn reload(&mut self) -> Result<(), AgentError> {
        let policy = load(&self.options.policy)?;
        self.change(policy)?;
        self.is_undone = false;
        self.reloads += 1;
        self.complete()
    }

    /// Gives all connections back what they had before, and leaves them alone until the policy is read anew.
    ///
    /// # Errors
    ///
    /// If the kernel refuses it; [`AgentError::Incomplete`] if it refuses a part, and the rules are gone already.
    pub fn undo(&mut self) -> Result<(), AgentError> {
        // Runs of users go on, and follow it.
        let advisor = self.policy.advisor.clone();
        self.change(Policy {
            advisor,
            ..Policy::default()
        })?;
        self.is_undone = true;
        self.complete()
    }

    /// Puts another policy in the place of this one; if that fails, nothing has changed.
    fn change(&mut self, policy: Policy) -> Result<(), AgentError> {
        let counts = self.host.counts(self.policy.rules.len());
        let replaced = provide_all(&policy, &mut self.controls).and_then(|()| {
            let names = names(&policy, &self.controls);
            let orders = orders(&self.options, self.group, &policy, &names);
            Ok(self.host.replace(&orders)?)
        });
        if replaced.is_err() {
            // Some may have been loaded for it.
            self.forget_controls();
            return replaced;
        }
        for (rule, counts) in self.policy.rules.iter().zip(counts) {
            self.earlier
                .entry(rule.name.clone())
                .or_default()
                .add(&counts);
        }
        self.policy = policy;
        Ok(())
    }

    /// Lets everything follow the policy that has changed.
    fn complete(&mut self) -> Result<(), AgentError> {
        let names = names(&self.policy, &self.controls);
        let orders = orders(&self.options, self.group, &self.policy, &names);
        let accompanied = self.host.accompany(&orders);
        let passed = self.host.pass();
        self.has_not_passed = passed.is_err();
        passed.map_err(AgentError::Incomplete)?;
        // Connections have left them by now.
        self.forget_controls();
        accompanied.map_err(AgentError::Incomplete)
    }

    /// Lets go of the congestion controls for which the policy does not ask.
    fn forget_controls(&mut self) {
        let policy = &self.policy;
        self.controls
            .retain(|control| is_asked_for(policy, &control.choice));
    }

    /// Loads congestion controls anew that somebody has unloaded. Until they are there, the kernel refuses them to new
    /// connections.
    fn look_after_controls(&mut self) {
        let Ok(kernel) = available() else { return };
        let is_there =
            |control: &Control| kernel.iter().any(|name| name == control.provided.name());
        self.controls.retain(is_there);
        let names = names(&self.policy, &self.controls);
        let mut rules = self.policy.rules.iter().zip(names);
        if rules.all(|(rule, name)| rule.action.control.is_some() == name.is_some()) {
            return;
        }
        let changed = self.change(self.policy.clone());
        match changed.and_then(|()| self.complete()) {
            Ok(()) => {
                tracing::warn!("a congestion control had been unloaded, and is there again");
                self.is_one_missing = false;
            }
            Err(error) if !self.is_one_missing => {
                tracing::error!("a congestion control has been unloaded: {error}");
                self.is_one_missing = true;
            }
            Err(_) => {}
        }
    }

    fn status(&self) -> Status {
        let counts = self.host.counts(self.policy.rules.len());
        let names = names(&self.policy, &self.controls);
        let rules = self.policy.rules.iter().zip(counts).zip(names);
        let rules = rules.map(|((rule, mut counts), congestion_control)| {
            if let Some(earlier) = self.earlier.get(&rule.name) {
                counts.add(earlier);
            }
            RuleStatus {
                name: rule.name.clone(),
                congestion_control,
                limit_mbps: rule.action.max_rate.map(|rate| f64::from(rate) * 8e-6),
                lower_effort: rule.action.is_lower_effort,
                counts,
            }
        });
        Status {
            policy: self.options.policy.clone(),
            dry_run: self.options.is_dry,
            undone: self.is_undone,
            seconds: self.began.elapsed().as_secs_f64(),
            reloads: self.reloads,
            survives: self.pin.missing().is_none(),
            not_kept: self.pin.missing().map(ToString::to_string),
            rules: rules.collect(),
            advised_starts: self.host.advised_starts(),
            starts_found_wrong: self.host.starts_found_wrong(),
            connections: None,
        }
    }

    fn live(&self, mut status: Status) -> Result<Status, HostError> {
        let connections = self.host.connections()?;
        let name = |hash: u64| {
            let mut rules = self.policy.rules.iter();
            rules.find(|rule| policy::name_hash(&rule.name) == hash)
        };
        let groups = control_group::paths().unwrap_or_default();
        let live = connections.into_iter().map(|connection| LiveConnection {
            control_group: groups.get(&connection.cgroup).cloned().unwrap_or_default(),
            rule: connection.rule.and_then(name).map(|rule| rule.name.clone()),
            connection,
        });
        status.connections = Some(live.collect());
        Ok(status)
    }

    fn write_metrics(&mut self) {
        let Some(file) = &self.options.metrics else {
            return;
        };
        let mut beside = file.clone().into_os_string();
        beside.push(".new");
        let text = self.status().metrics();
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, file));
        match written {
            Ok(()) => self.has_no_metrics = false,
            Err(error) if !self.has_no_metrics => {
                tracing::warn!("{}: {error}", file.display());
                self.has_no_metrics = true;
            }
            Err(_) => {}
        }
    }
}

/// Gives everything back that an agent which has ended has left; see [`host::undo`].
///
/// # Errors
///
/// If a right is missing; an agent is there, which is to be asked itself; or the kernel refuses.
pub fn undo(group: Option<&Path>) -> Result<bool, AgentError> {
    check_requirements()?;
    let root = || fairwind_kernel::mounted("cgroup2").ok_or(AgentError::NoGroups);
    let path = group.map_or_else(root, |group| Ok(group.to_owned()))?;
    let group = fs::metadata(&path).map_err(at(&path))?.ino();
    let _lock = lock::Lock::of_group(group)?;
    Ok(host::undo(group, &Pin::of_group(group))?)
}

/// Reads a policy file.
///
/// # Errors
///
/// If it cannot be read or has a mistake.
pub fn load(file: &Path) -> Result<Policy, AgentError> {
    let text = fs::read_to_string(file).map_err(at(file))?;
    Ok(policy::read(&file.display().to_string(), &text)?)
}

/// Loads the congestion controls of a policy that are not held yet.
fn provide_all(policy: &Policy, held: &mut Vec<Control>) -> Result<(), AgentError> {
    for rule in &policy.rules {
        let Some(choice) = &rule.action.control else {
            continue;
        };
        if held.iter().any(|control| control.choice == *choice) {
            continue;
        }
        let failed = |source| AgentError::Control {
            rule: rule.name.clone(),
            source,
        };
        held.push(Control {
            choice: choice.clone(),
            provided: provide(choice).map_err(failed)?,
        });
    }
    Ok(())
}

fn orders<'a>(
    options: &Options,
    group: u64,
    policy: &'a Policy,
    controls: &'a [Option<String>],
) -> Orders<'a> {
    Orders {
        policy,
        controls,
        group,
        is_whole: options.group.is_none(),
        is_dry: options.is_dry,
    }
}

fn is_asked_for(policy: &Policy, choice: &Choice) -> bool {
    let mut rules = policy.rules.iter();
    rules.any(|rule| rule.action.control.as_ref() == Some(choice))
}

/// The kernel's names of the rules' congestion controls.
fn names(policy: &Policy, controls: &[Control]) -> Vec<Option<String>> {
    let name = |choice: &Choice| {
        let control = controls.iter().find(|control| control.choice == *choice);
        control.map(|control| control.provided.name().to_owned())
    };
    let rules = policy.rules.iter();
    rules
        .map(|rule| rule.action.control.as_ref().and_then(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_of_the_user_is_told_apart_from_what_the_kernel_refuses() {
        let mistake = AgentError::NotAGroup("/tmp".into());
        assert!(matches!(Refusal::from(mistake), Refusal::Mistake(_)));
        let refused = || HostError::Refused {
            reason: "Link has been severed (os error 67)".to_owned(),
            log: String::new(),
        };
        for error in [refused().into(), AgentError::Incomplete(refused())] {
            assert!(matches!(Refusal::from(error), Refusal::Unavailable(_)));
        }
    }
}
