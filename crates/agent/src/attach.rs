//! The programs at a control group.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;

use fairwind_bpf::messages;
use libbpf_rs::{Link, Map, MapCore, MapFlags, Object, ObjectBuilder};
use serde::{Deserialize, Serialize};

use crate::action::Encoded;
use crate::advised::{Advisor, FollowError, Following};

/// For so long a window is offered after [`Attached::hold`].
pub(crate) const LEASE: Duration = Duration::from_secs(1);

/// What sockets are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The kernel's name of a congestion control; `None`: they keep theirs.
    pub control: Option<String>,
    /// Whether sockets have it whose program chooses another.
    pub is_forced: bool,
    /// Largest rate of each, bytes a second.
    pub max_rate: Option<u32>,
    /// Whether packets have the mark of the Lower-Effort service (RFC 8622).
    pub is_lower_effort: bool,
    /// The segments that a connection with another host offers until [`Attached::offer`] sets another window; `None`: they
    /// offer what they would.
    pub first_segments: Option<u32>,
    /// Whose advice on their peers they follow.
    pub advisor: Option<Advisor>,
}

impl Given {
    /// `struct settings` of `bpf/agent.bpf.c`.
    fn settings(&self) -> Vec<u8> {
        let action = Encoded {
            control: self.control.as_deref(),
            max_rate: self.max_rate,
            is_lower_effort: self.is_lower_effort,
            is_forced: self.is_forced,
            is_advised: self.advisor.is_some(),
            ..Encoded::default()
        };
        let mut bytes = action.bytes();
        bytes.extend(self.first_segments.unwrap_or(0).to_ne_bytes());
        bytes
    }
}

/// What became of the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// That were given the control.
    pub given: u64,
    /// That keep what their program has chosen.
    pub own: u64,
    /// Of which the kernel has refused it, as where a route demands another.
    pub refused: u64,
    /// Calls by which a program would have chosen another control.
    pub ignored: u64,
}

/// Why there are no programs at a control group.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// As it says.
    #[error(
        "the kernel refuses to give a control group's connections a congestion control: {reason}\n{log}"
    )]
    Refused {
        /// The kernel's error.
        reason: String,
        /// What its verifier said.
        log: String,
    },
    /// The advisor cannot be asked.
    #[error(transparent)]
    Advisor(#[from] FollowError),
}

/// The programs, which act until this is dropped.
#[derive(Debug)]
pub struct Attached {
    object: Object,
    _give: Link,
    /// If windows are offered.
    packet: Option<Link>,
    _choose: Link,
    following: Option<Following>,
    /// Whether what is pinned stays.
    has_left: bool,
}

impl Attached {
    /// Attaches them to a control group.
    ///
    /// # Errors
    ///
    /// If the kernel refuses them.
    ///
    /// # Panics
    ///
    /// If the control's name is longer than the kernel's are.
    pub fn to(group: impl AsFd, given: &Given) -> Result<Attached, AttachError> {
        messages::collect();
        let mut attached = attach(group, given).map_err(|error| refused(&error))?;
        let following = given.advisor.as_ref();
        let following = following.map(|advisor| Following::start(&attached.object, advisor, false));
        attached.following = following.transpose()?;
        Ok(attached)
    }

    /// From its next packet on, the connection with this cookie offers a window of so many bytes at most; if first segments
    /// were given.
    pub fn offer(&self, cookie: u64, window: u32) {
        let map = self.map("windows");
        // Its memory is there from the start.
        let _ = map.update(&cookie.to_ne_bytes(), &window.to_ne_bytes(), MapFlags::ANY);
    }

    /// Windows are offered from now on for a second. Then, if this process has ended, connections offer what they would.
    pub fn hold(&self) {
        let until = fairwind_kernel::monotonic_ns() + LEASE.as_nanos() as u64;
        let map = self.map("held_until");
        let _ = map.update(&0u32.to_ne_bytes(), &until.to_ne_bytes(), MapFlags::ANY);
    }

    /// Keeps the program at the control group that lets windows go, by this file of a BPF file system, if this process ends
    /// without dropping it, or after [`leave`](Attached::leave). A file of this name is of a group that is gone.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub fn outlive(&mut self, pin: &Path) -> Result<(), AttachError> {
        // Mostly there is none.
        let _ = fs::remove_file(pin);
        let pinned = self.packet.as_mut().map(|packet| packet.pin(pin));
        pinned.unwrap_or(Ok(())).map_err(|error| refused(&error))
    }

    /// Processes stay in the control group when this is dropped, whose windows are let go then.
    pub fn leave(&mut self) {
        self.has_left = true;
    }

    /// Follows the advisor no longer, and returns what of its advice was not followed, and why.
    pub(crate) fn end_advice(&mut self) -> Vec<String> {
        let following = self.following.take();
        following.map(Following::finish).unwrap_or_default()
    }

    fn map(&self, name: &str) -> Map<'_> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == OsStr::new(name));
        map.expect("agent.bpf.c has the map")
    }

    /// What became of the connections so far.
    pub fn counts(&self) -> Counts {
        let value = self
            .map("counts")
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.ok().flatten().unwrap_or_default();
        let (words, _) = value.as_chunks::<8>();
        let word = |at: usize| words.get(at).copied().map_or(0, u64::from_ne_bytes);
        Counts {
            given: word(0),
            own: word(1),
            refused: word(2),
            ignored: word(3),
        }
    }
}

fn attach(group: impl AsFd, given: &Given) -> libbpf_rs::Result<Attached> {
    let mut open = ObjectBuilder::default()
        .name("fairwind_agent")?
        .open_memory(fairwind_bpf::object!("agent.bpf.o"))?;
    for mut map in open.maps_mut() {
        if map.name() == OsStr::new(".rodata.settings") {
            map.set_initial_value(&given.settings())?;
        }
    }
    let object = open.load()?;
    let group = group.as_fd().as_raw_fd();
    let program = |name: &str| {
        let mut programs = object.progs_mut();
        let program = programs.find(|program| program.name() == OsStr::new(name));
        program
            .expect("agent.bpf.c has the program")
            .attach_cgroup(group)
    };
    let (give, choose) = (program("give")?, program("choose")?);
    let packet = given.first_segments.map(|_| program("packet"));
    let packet = packet.transpose()?;
    Ok(Attached {
        object,
        _give: give,
        packet,
        _choose: choose,
        following: None,
        has_left: false,
    })
}

fn refused(error: &libbpf_rs::Error) -> AttachError {
    AttachError::Refused {
        reason: error.to_string(),
        log: messages::take(),
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(packet) = &mut self.packet
            && packet.pin_path().is_some()
            && !self.has_left
        {
            // The group's end detaches it, too.
            let _ = packet.unpin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_in_the_programs_layout() {
        let given = Given {
            control: Some("fw_fairwind".to_owned()),
            first_segments: Some(10),
            ..Given::default()
        };
        let mut bytes = b"fw_fairwind".to_vec();
        bytes.resize(32, 0);
        bytes.extend(10u32.to_ne_bytes());
        assert_eq!(given.settings(), bytes);
        assert_eq!(Given::default().settings(), [0; 36]);
    }
}
