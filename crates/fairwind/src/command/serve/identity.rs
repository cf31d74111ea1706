//! The user whose rights the server has once it listens.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist, getgroups};

/// User and group if a system has no `nobody`: what the kernel shows for ids that it cannot map.
const OVERFLOW: u32 = 65_534;

/// A user with its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The user.
    pub uid: Uid,
    /// The group that new files belong to.
    pub gid: Gid,
    /// Supplementary groups.
    pub groups: Vec<Gid>,
    /// Its name in messages.
    pub name: String,
    /// Whether the group was given, not only derived from the user.
    names_group: bool,
}

impl Identity {
    /// Parses `USER` or `USER:GROUP`, by name or number. Without a group, it is the user's own, with all
    /// groups that the user belongs to.
    ///
    /// # Errors
    /// Fails if the user or the group does not exist, or if a user without a name comes without a group.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let known = match user.parse() {
            Ok(number) => User::from_uid(Uid::from_raw(number)),
            Err(_) => User::from_name(user),
        };
        let known = known.map_err(|error| format!("{user}: {error}"))?;
        let uid = match (&known, user.parse()) {
            (Some(known), _) => known.uid,
            (None, Ok(number)) => Uid::from_raw(number),
            (None, Err(_)) => return Err(format!("there is no user {user:?}")),
        };
        let Some(group) = group else {
            return known.map(Self::of).ok_or_else(|| {
                format!("user {user} has no name, so a group is needed: {user}:GROUP")
            });
        };
        let gid = match group.parse() {
            Ok(number) => Gid::from_raw(number),
            Err(_) => {
                Group::from_name(group)
                    .map_err(|error| format!("{group}: {error}"))?
                    .ok_or_else(|| format!("there is no group {group:?}"))?
                    .gid
            }
        };
        Ok(Self {
            uid,
            gid,
            groups: vec![gid],
            name: text.to_owned(),
            names_group: true,
        })
    }

    /// The owner of a directory; `nobody` if that is root.
    ///
    /// # Errors
    /// Fails if the directory's owner cannot be determined.
    pub(crate) fn of_owner(directory: &Path) -> io::Result<Self> {
        let facts = directory.metadata()?;
        let uid = Uid::from_raw(facts.uid());
        if uid.is_root() {
            return Ok(Self::nobody());
        }
        let known = User::from_uid(uid).ok().flatten();
        Ok(known.map_or_else(|| Self::unnamed(uid, Gid::from_raw(facts.gid())), Self::of))
    }

    fn nobody() -> Self {
        let known = User::from_name("nobody").ok().flatten();
        known.map_or_else(
            || Self::unnamed(Uid::from_raw(OVERFLOW), Gid::from_raw(OVERFLOW)),
            Self::of,
        )
    }

    fn of(user: User) -> Self {
        let name = std::ffi::CString::new(user.name.as_str()).ok();
        let groups = name.and_then(|name| getgrouplist(&name, user.gid).ok());
        Self {
            groups: groups.unwrap_or_else(|| vec![user.gid]),
            uid: user.uid,
            gid: user.gid,
            name: user.name,
            names_group: false,
        }
    }

    /// The identity of a number without a name; never with root's group, which nobody requested.
    fn unnamed(uid: Uid, gid: Gid) -> Self {
        let gid = match gid.as_raw() {
            0 => Gid::from_raw(OVERFLOW),
            _ => gid,
        };
        Self {
            uid,
            gid,
            groups: vec![gid],
            name: uid.to_string(),
            names_group: false,
        }
    }

    /// Whether this process has this identity; if a group was given, with no other group.
    pub(crate) fn is_own(&self) -> bool {
        self.uid == Uid::effective() && (!self.names_group || self.is_own_group())
    }

    fn is_own_group(&self) -> bool {
        let others = getgroups().unwrap_or_default();
        self.gid == Gid::effective() && others.iter().all(|group| *group == self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_go_by_name_or_number() {
        let root = Identity::parse("root").unwrap();
        assert_eq!((root.uid.as_raw(), root.gid.as_raw()), (0, 0));
        let some = Identity::parse("54321:0").unwrap();
        assert_eq!((some.uid.as_raw(), some.gid.as_raw()), (54_321, 0));
        assert_eq!(some.groups, [Gid::from_raw(0)]);
        for (text, part) in [
            ("no-such-user", "no-such-user"),
            ("root:no-such-group", "no-such-group"),
            ("54321", "54321:GROUP"),
        ] {
            let error = Identity::parse(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn who_names_another_group_is_somebody_else() {
        let (uid, gid) = (Uid::effective(), Gid::effective());
        let other = Identity::parse(&format!("{uid}:{}", gid.as_raw() + 1)).unwrap();
        assert!(!other.is_own());
        assert!(Identity::parse(&uid.to_string()).unwrap().is_own());
    }

    #[test]
    fn what_root_owns_is_served_by_nobody() {
        assert_ne!(
            Identity::of_owner(Path::new("/")).unwrap().uid,
            Uid::from_raw(0)
        );
        assert!(Identity::of_owner(Path::new("/no/such/directory")).is_err());
    }
}
