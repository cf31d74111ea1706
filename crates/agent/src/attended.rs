//! A control group whose connections are given what is wanted for them, held down, and watched.

use std::thread;
use std::time::{Duration, Instant};

use fairwind_cc::kernel::{Choice, Provided, provide};
use fairwind_trace::event::Event;
use fairwind_trace::filter::Filter;
use fairwind_trace::kernel::{Options, check_requirements};
use fairwind_trace::session::Session;
use fairwind_transfer::background::Arrived;
use serde::{Deserialize, Serialize};

use crate::advised::Advisor;
use crate::attach::{Attached, Given};
use crate::control_group::{self, ControlGroup};
use crate::error::RunError;
use crate::hold::Hold;
use crate::summary::{Summary, Watch};

/// Time between samples of the connections: to tell of them, and to hold them.
const INTERVAL: Duration = Duration::from_millis(100);
const HOLDING: Duration = Duration::from_millis(10);
/// The time of a step where there is nothing to watch any more.
const PAUSE: Duration = Duration::from_millis(25);

/// What the connections of a command are to have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The congestion control; `None`: the connections keep theirs.
    pub control: Option<Choice>,
    /// Whether connections have it whose program chooses another.
    pub is_forced: bool,
    /// Largest rate of each connection, bytes a second.
    pub max_rate: Option<u32>,
    /// Whether packets have the mark of the Lower-Effort service (RFC 8622).
    pub is_lower_effort: bool,
    /// Whether what the connections receive takes only what others leave.
    pub is_held: bool,
    /// Whose advice on their peers the connections follow.
    pub advisor: Option<Advisor>,
}

/// What became of the connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// The connections.
    pub summary: Summary,
    /// Processes that the command has left behind. Their connections keep what they have been given; new ones are given
    /// nothing.
    pub left: Vec<u32>,
}

/// The group, until this is dropped.
#[derive(Debug)]
pub struct Attended {
    // In the order in which they go.
    session: Session,
    attached: Attached,
    control: Option<Provided>,
    group: ControlGroup,
    watch: Watch,
    hold: Option<Hold>,
    began: Instant,
    /// Why the connections can no longer be watched, once they cannot.
    lost: Option<RunError>,
}

impl Attended {
    /// Begins to take care of a group that has no process yet.
    ///
    /// # Errors
    ///
    /// If a privilege or a feature of the kernel is missing.
    pub fn start(group: ControlGroup, wanted: &Wanted) -> Result<Attended, RunError> {
        check_requirements()?;
        let control = wanted.control.as_ref().map(provide).transpose()?;
        let mut attached = Attached::to(
            &group,
            &Given {
                control: control.as_ref().map(|control| control.name().to_owned()),
                is_forced: wanted.is_forced,
                max_rate: wanted.max_rate,
                is_lower_effort: wanted.is_lower_effort,
                first_segments: wanted.is_held.then(Hold::first_segments),
                advisor: wanted.advisor.clone(),
            },
        )?;
        if wanted.is_held {
            attached.hold();
            // Without such a file system, or the right to it, a killed run leaves its windows as they are.
            let _ = control_group::pin(group.inode()?).map(|pin| attached.outlive(&pin));
        }
        let options = Options {
            filter: Filter {
                cgroups: vec![group.inode()?],
                ..Filter::default()
            },
            control_state: true,
            ring_bytes: 1 << 20,
            ..Options::default()
        };
        let interval = if wanted.is_held { HOLDING } else { INTERVAL };
        Ok(Attended {
            session: Session::start(&options, Some(interval))?,
            attached,
            control,
            group,
            watch: Watch::new(),
            hold: wanted.is_held.then(Hold::default),
            began: Instant::now(),
            lost: None,
        })
    }

    /// The group.
    pub fn group(&self) -> &ControlGroup {
        &self.group
    }

    /// Waits at most 25 ms until there is something to do, and does it. Connections are held down as long as this is called
    /// and they can be watched; new ones are given what is wanted also afterwards.
    pub fn step(&mut self) {
        if self.lost.is_some() {
            thread::sleep(PAUSE);
        } else if let Err(error) = self.watch() {
            self.lost = Some(error);
        }
    }

    fn watch(&mut self) -> Result<(), RunError> {
        let Attended {
            session,
            attached,
            watch,
            hold,
            ..
        } = self;
        if let Some(hold) = hold {
            attached.hold();
            // Where they cannot be listed, their queue still can be seen.
            let _ = hold.look(Arrived::list);
        }
        session.step(|event| {
            watch.event(event, hold.as_ref());
            if let Some(hold) = hold {
                follow(event, hold, attached);
            }
        })?;
        Ok(())
    }

    /// Ends, and says what the connections did.
    ///
    /// # Errors
    ///
    /// If they could not be watched until now.
    pub fn finish(self) -> Result<Ended, RunError> {
        let Attended {
            session,
            mut attached,
            control,
            group,
            mut watch,
            hold,
            began,
            lost,
        } = self;
        let seconds = began.elapsed().as_secs_f64();
        let watched = lost.map_or(Ok(()), Err).and_then(|()| {
            session.finish(|event| watch.event(event, hold.as_ref()))?;
            Ok(())
        });
        let left = group.processes();
        if !left.is_empty() {
            attached.leave();
        }
        watched?;
        let name = control.as_ref().map(Provided::name);
        let mut summary = watch.summary(name, attached.counts(), seconds);
        summary.left_out = attached.end_advice();
        Ok(Ended { summary, left })
    }
}

/// Lets the connection of an event offer what the law says.
fn follow(event: &Event<'_>, hold: &mut Hold, attached: &Attached) {
    match event {
        Event::Sample(sample, _) => {
            if let Some(window) = hold.sample(sample) {
                attached.offer(sample.head.id, window);
            }
        }
        Event::Close(sample, _) => hold.forget(sample.head.id),
        Event::Open(_) | Event::Identity(_) | Event::Control(_) => {}
    }
}
