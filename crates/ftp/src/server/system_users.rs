//! System users: their passwords are checked elsewhere ([`Authenticator`]), and what they may do with files is
//! decided by the kernel, if the server acts with their rights ([`Identity`]).

use std::any::Any;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Gid, Uid};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// Passwords that are checked at a time; further ones wait.
const CHECKS: usize = 16;

/// A user of the system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemUser {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// The group of its new files.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// The names of those that have one.
    pub group_names: Vec<String>,
}

/// A login to be checked.
#[derive(Debug, Serialize, Deserialize)]
pub struct Login {
    /// The name that the client gave.
    pub name: String,
    /// The password.
    pub password: Vec<u8>,
    /// The client's address.
    pub peer: IpAddr,
    /// Time for an answer, whole seconds.
    pub patience: Duration,
    /// Whether a session is to be opened, which lasts as long as the user is logged in.
    pub opens_session: bool,
}

/// What a login keeps open, until the last copy is dropped.
#[derive(Clone)]
pub struct Opened(
    #[expect(dead_code, reason = "dropping it is all that is done")] Arc<dyn Any + Send + Sync>,
);

impl Opened {
    /// Ends when `session` is dropped.
    pub fn with(session: impl Any + Send + Sync) -> Self {
        Self(Arc::new(session))
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").finish_non_exhaustive()
    }
}

/// A user, and what its login keeps open.
pub type LoggedIn = (SystemUser, Option<Opened>);

/// What system users may do, of these names or in these groups.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SystemUserConfig {
    /// Users for whom the table is. Default: everybody, unless there are `groups`.
    #[serde(default)]
    pub users: Vec<String>,
    /// Groups of the system for whose members the table is.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Whether they may write. Default: `true`.
    #[serde(default = "yes")]
    pub write: bool,
    /// As of a user.
    #[serde(default)]
    pub quota_bytes: u64,
    /// As of a user.
    #[serde(default)]
    pub quota_files: u64,
    /// Whether `SITE WHO` shows them all sessions.
    #[serde(default)]
    pub admin: bool,
    /// Whether they may log in. Default: `true`.
    #[serde(default = "yes")]
    pub login: bool,
}

fn yes() -> bool {
    true
}

impl Default for SystemUserConfig {
    fn default() -> Self {
        Self {
            users: Vec::new(),
            groups: Vec::new(),
            write: true,
            quota_bytes: 0,
            quota_files: 0,
            admin: false,
            login: true,
        }
    }
}

impl SystemUserConfig {
    /// Whether it is for this user.
    pub(super) fn is_for(&self, user: &SystemUser) -> bool {
        let everybody = self.users.is_empty() && self.groups.is_empty();
        everybody
            || self.users.contains(&user.name)
            || self
                .groups
                .iter()
                .any(|group| user.group_names.contains(group))
    }
}

type Ask = dyn Fn(&Login) -> io::Result<Option<LoggedIn>> + Send + Sync;

/// Checks passwords of system users. It may take its time: it is asked in a thread of its own.
#[derive(Clone)]
pub struct Authenticator(Arc<Ask>);

impl Authenticator {
    /// Asks `ask`: the user, none if the name or password is wrong, or why that cannot be known.
    pub fn by(
        ask: impl Fn(&Login) -> io::Result<Option<LoggedIn>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(ask))
    }

    /// The user with this name and password.
    ///
    /// # Errors
    /// If it cannot be known.
    pub(super) fn ask(&self, login: &Login) -> io::Result<Option<LoggedIn>> {
        (self.0)(login)
    }
}

impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authenticator").finish_non_exhaustive()
    }
}

/// Limits how many passwords are checked at a time.
#[derive(Debug)]
pub(super) struct Checks(pub(super) Arc<Semaphore>);

impl Default for Checks {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CHECKS)))
    }
}

/// Rights to files, of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rights {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
}

/// A user with whose rights to files the server acts.
#[derive(Debug)]
pub(super) struct Identity {
    user: Rights,
    server: Rights,
}

impl Identity {
    /// Notes the user's rights, and the server's to return to.
    ///
    /// # Errors
    /// If the server's groups cannot be read.
    pub(super) fn of(user: &SystemUser) -> io::Result<Self> {
        Ok(Self {
            user: Rights {
                uid: user.uid,
                gid: user.gid,
                groups: user
                    .groups
                    .iter()
                    .map(|group| Gid::from_raw(*group))
                    .collect(),
            },
            server: Rights {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: rustix::process::getgroups()?,
            },
        })
    }

    /// Acts with the user's rights to files, in this thread and those that it starts meanwhile (setfsuid(2)).
    ///
    /// # Errors
    /// `EPERM` if the server may not; nothing has been done then.
    pub(super) fn act<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        /// Returns to the server's rights also if `act` panics.
        struct Return<'a>(&'a Rights);
        impl Drop for Return<'_> {
            fn drop(&mut self) {
                if !self.0.take() {
                    // Another client would get these rights.
                    std::process::abort();
                }
            }
        }
        let _return = Return(&self.server);
        if !self.user.take() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(act())
    }
}

impl Rights {
    /// Gives them to this thread; false if the kernel refuses.
    fn take(&self) -> bool {
        // The calls for numbers tell the former ones, and with -1 change nothing. The C library's setgroups(3) would
        // change all threads.
        let groups = rustix::thread::set_thread_groups(&self.groups).is_ok();
        // SAFETY: these calls take numbers only.
        unsafe {
            libc::setfsgid(self.gid);
            libc::setfsuid(self.uid);
            groups
                && libc::setfsgid(u32::MAX) as u32 == self.gid
                && libc::setfsuid(u32::MAX) as u32 == self.uid
        }
    }
}

/// Whether a name can be a directory's, for a user whose root is named so.
pub(super) fn names_a_directory(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// Root is nobody's to be by FTP.
pub(super) fn may_log_in(user: &SystemUser) -> bool {
    !Uid::from_raw(user.uid).is_root()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use fairwind_testing::permitted;

    use super::*;

    #[test]
    fn a_thread_acts_with_the_rights_of_another_and_returns_to_its_own() {
        if !permitted(fairwind_testing::root()) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, "x").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let identity = Identity::of(&SystemUser {
            name: "pat".into(),
            uid: 54_321,
            gid: 54_322,
            groups: vec![54_322],
            group_names: Vec::new(),
        });
        let identity = identity.unwrap();
        let elsewhere = || {
            let read = || fs::read(&secret).is_ok();
            std::thread::scope(|scope| scope.spawn(read).join().unwrap())
        };
        let read = identity
            .act(|| (fs::read(&secret).is_ok(), elsewhere()))
            .unwrap();
        assert_eq!(read, (false, false));
        assert!(fs::read(&secret).is_ok() && elsewhere());
        let panics = std::panic::AssertUnwindSafe(|| identity.act(|| panic!("on purpose")));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(fs::read(&secret).is_ok());
    }

    #[test]
    fn rules_are_for_users_or_members_or_everybody() {
        let user = SystemUser {
            name: "pat".into(),
            uid: 1,
            gid: 1,
            groups: vec![1, 2],
            group_names: vec!["staff".into()],
        };
        let rule = |users: &[&str], groups: &[&str]| SystemUserConfig {
            users: users.iter().map(|name| (*name).into()).collect(),
            groups: groups.iter().map(|name| (*name).into()).collect(),
            ..SystemUserConfig::default()
        };
        for (users, groups, is_for) in [
            (&[][..], &[][..], true),
            (&["pat"], &[], true),
            (&["sam"], &[], false),
            (&["sam"], &["staff"], true),
            (&[], &["pat"], false),
        ] {
            assert_eq!(
                rule(users, groups).is_for(&user),
                is_for,
                "{users:?} {groups:?}"
            );
        }
    }

    #[test]
    fn names_that_lead_elsewhere_have_no_directory() {
        assert!(names_a_directory("alice") && names_a_directory("a.b"));
        for name in ["", ".", "..", "a/b", "../x", "a\0"] {
            assert!(!names_a_directory(name), "{name:?}");
        }
    }
}
