//! Who may log in, and to which files.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use fairwind_origin::Origin;
use parking_lot::Mutex;

use super::access::{self, Access};
use super::config::{Config, UserConfig};
use super::files::Root;
use super::hosts::account;
use super::invalid;
use super::passwords::{Memory, Secret};
use super::quota::{Amount, Quotas};
use super::system_users::{
    Identity, LoggedIn, Opened, SystemUserConfig, may_log_in, names_a_directory,
};

/// A logged-in user.
#[derive(Debug, Clone)]
pub(super) struct User {
    /// The name, with that of a virtual host behind it; for anonymous users, what they gave as password.
    pub name: String,
    /// Whose unfinished uploads the user can go on with: for named users the name; for anonymous ones the host and where
    /// they come from, since what they call themselves proves nothing.
    pub owner: String,
    /// Whether the user is anonymous.
    pub anonymous: bool,
    /// Whether the user may write.
    pub write: bool,
    /// Whether SITE WHO shows all sessions.
    pub admin: bool,
    /// The user's files.
    pub root: Arc<Root>,
    /// With whose rights files are served; none: the server's.
    pub identity: Option<Arc<Identity>>,
    /// What the login of a system user keeps open.
    #[expect(dead_code, reason = "held until the user has left and no work is left")]
    pub opened: Option<Opened>,
}

impl User {
    /// Acts with the user's rights to files.
    ///
    /// # Errors
    /// If the server may not.
    pub(super) fn act<T>(&self, act: impl FnOnce() -> T) -> io::Result<T> {
        match &self.identity {
            Some(identity) => identity.act(act),
            None => Ok(act()),
        }
    }
}

/// How many sessions each named user has.
#[derive(Debug, Clone, Default)]
pub(super) struct Crowd(Arc<Mutex<HashMap<String, usize>>>);

/// The place of a session among those of its user; freed when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Crowd,
    user: String,
}

impl Crowd {
    /// Takes a place for a session of `user`; none if it has `most` already; 0: no limit.
    pub(super) fn take(&self, user: &str, most: usize) -> Option<Seat> {
        let mut sessions = self.0.lock();
        let has = sessions.entry(user.to_owned()).or_default();
        if most > 0 && *has >= most {
            return None;
        }
        *has += 1;
        Some(Seat {
            crowd: self.clone(),
            user: user.to_owned(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut sessions = self.crowd.0.lock();
        if let Some(has) = sessions.get_mut(&self.user) {
            *has -= 1;
            if *has == 0 {
                sessions.remove(&self.user);
            }
        }
    }
}

/// All users.
#[derive(Debug)]
pub(super) struct Users {
    /// The directory that is served.
    root: Arc<Root>,
    anonymous: Option<User>,
    named: HashMap<String, (Secret, User)>,
    /// A hash that matches no password, so that an unknown name takes as long as a wrong password; none
    /// if there is no name to be found out.
    decoy: Option<Secret>,
}

fn is_anonymous(name: &str) -> bool {
    name.eq_ignore_ascii_case("anonymous") || name.eq_ignore_ascii_case("ftp")
}

impl Users {
    /// The users of the configuration, with their directories open; with the root of `before`, if given. They are those
    /// of the virtual host `host`, or the server's own.
    ///
    /// # Errors
    /// If a directory cannot be opened or a name or hash is invalid; the error names it.
    pub(super) fn open(
        config: &Config,
        host: Option<&str>,
        before: Option<&Self>,
        quotas: &Quotas,
    ) -> io::Result<Self> {
        let root = Arc::new(match before {
            Some(before) => before.root.again(config.partial_age)?,
            None => Root::open(&config.root, config.partial_age)?,
        });
        access::check(config).map_err(invalid)?;
        let mut named = HashMap::new();
        for user in &config.users {
            if user.name.is_empty()
                || user.name.contains(char::is_control)
                || is_anonymous(&user.name)
            {
                return Err(invalid(format!(
                    "user {:?}: not a name for a user",
                    user.name
                )));
            }
            let secret = Secret::read(&user.password).map_err(|error| {
                invalid(format!(
                    "user {}: the password is not a hash ({error}); fairwind serve --hash-password makes one",
                    user.name
                ))
            })?;
            let home = match &user.home {
                Some(home) => Arc::new(root.descend(home).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("user {}: home {}: {error}", user.name, home.display()),
                    )
                })?),
                None => Arc::clone(&root),
            };
            let rules = Access::of(config, Some(user), root.directory_itself())?;
            let name = account(&user.name, host);
            let write = rules.as_ref().map_or(user.write, Access::changes);
            let root = limited(home, &name, user, rules, quotas)?;
            let entry = User {
                owner: name.clone(),
                name,
                anonymous: false,
                write,
                admin: user.admin,
                identity: None,
                opened: None,
                root,
            };
            if named.insert(user.name.clone(), (secret, entry)).is_some() {
                return Err(invalid(format!("user {}: named twice", user.name)));
            }
        }
        let rules = Access::of(config, None, root.directory_itself())?;
        let anonymous = User {
            name: "anonymous".into(),
            // With a character that no user's name has.
            owner: format!("anonymous\n{}\n", host.unwrap_or_default()),
            anonymous: true,
            write: rules.as_ref().is_some_and(Access::changes),
            admin: false,
            identity: None,
            opened: None,
            root: match rules {
                Some(_) => Arc::new(root.of_user(rules, None)?),
                None => Arc::clone(&root),
            },
        };
        let anonymous = config.anonymous.then_some(anonymous);
        let dearest = named.values().map(|(secret, _)| secret);
        let decoy = dearest.max_by_key(|secret| secret.work());
        Ok(Self {
            root,
            anonymous,
            decoy: decoy.map(Secret::decoy).transpose()?,
            named,
        })
    }

    /// Whether `name` is an anonymous user's, who may give any password.
    pub(super) fn is_anonymous_login(&self, name: &str) -> bool {
        is_anonymous(name) && self.anonymous.is_some()
    }

    /// The anonymous user at `peer`, if `name` is one and there may be any; `password` is what it calls itself.
    pub(super) fn anybody(&self, name: &str, password: &[u8], peer: IpAddr) -> Option<User> {
        let mut user = self.anonymous.clone().filter(|_| is_anonymous(name))?;
        user.owner.push_str(&Origin::from(peer).to_string());
        let given = crate::protocol::path::one_line(password);
        if !given.trim().is_empty() {
            user.name = given.trim().chars().take(64).collect();
        }
        Some(user)
    }

    /// Whether the configuration names the user.
    pub(super) fn names(&self, name: &str) -> bool {
        self.named.contains_key(name)
    }

    /// A system user who has logged in; none if it may not.
    ///
    /// # Errors
    /// If its root cannot be opened.
    pub(super) fn system_user(
        &self,
        config: &Config,
        (user, opened): LoggedIn,
        quotas: &Quotas,
    ) -> io::Result<Option<User>> {
        let rules = &config.system_user;
        let rule = rules.iter().find(|rule| rule.is_for(&user)).cloned();
        let SystemUserConfig {
            write,
            quota_bytes,
            quota_files,
            admin,
            login,
            ..
        } = rule.unwrap_or_default();
        if !login || !may_log_in(&user) {
            return Ok(None);
        }
        let root = match config.pam_homes {
            true if !names_a_directory(&user.name) => return Ok(None),
            true => Arc::new(self.root.descend(user.name.as_ref())?),
            false => Arc::clone(&self.root),
        };
        let as_configured = UserConfig {
            name: user.name.clone(),
            groups: user.group_names.clone(),
            write,
            quota_bytes,
            quota_files,
            admin,
            ..UserConfig::default()
        };
        let rules = Access::of(config, Some(&as_configured), self.root.directory_itself())?;
        let identity = config.pam_as_user.then(|| Identity::of(&user));
        Ok(Some(User {
            name: user.name.clone(),
            owner: user.name.clone(),
            anonymous: false,
            write: rules.as_ref().map_or(write, Access::changes),
            admin,
            identity: identity.transpose()?.map(Arc::new),
            opened,
            root: limited(root, &user.name, &as_configured, rules, quotas)?,
        }))
    }

    /// The user, if the password is right; its hash is computed in `memory`.
    pub(super) fn login(&self, name: &str, password: &[u8], memory: &mut Memory) -> Option<User> {
        let found = self.named.get(name);
        let secret = found.map(|(secret, _)| secret).or(self.decoy.as_ref())?;
        let right = secret.is(password, memory);
        found.filter(|_| right).map(|(_, user)| user.clone())
    }
}

/// The directory with the rights and the quota of a user; `name` is the user's in all counts.
fn limited(
    root: Arc<Root>,
    name: &str,
    user: &UserConfig,
    rules: Option<Access>,
    quotas: &Quotas,
) -> io::Result<Arc<Root>> {
    let limit = Amount {
        bytes: user.quota_bytes,
        files: user.quota_files,
    };
    let quota = match limit == Amount::default() {
        true => None,
        false => Some(quotas.of(name, root.directory_itself(), limit)?),
    };
    Ok(match rules.is_some() || quota.is_some() {
        true => Arc::new(root.of_user(rules, quota)?),
        false => root,
    })
}

#[cfg(test)]
mod tests {
    use super::super::passwords::hash_password;
    use super::*;

    fn config(dir: &std::path::Path) -> Config {
        Config {
            users: vec![UserConfig {
                name: "alice".into(),
                password: hash_password("correct horse").unwrap(),
                write: true,
                ..UserConfig::default()
            }],
            ..Config::new(dir)
        }
    }

    #[test]
    fn a_name_logs_in_with_its_own_password_only() {
        let dir = tempfile::tempdir().unwrap();
        let users = Users::open(&config(dir.path()), None, None, &Quotas::default()).unwrap();
        let mut memory = Memory::default();
        let mut login = |name, password| users.login(name, password, &mut memory);
        assert!(login("alice", b"correct horse".as_slice()).unwrap().write);
        assert!(login("alice", b"wrong".as_slice()).is_none());
        assert!(login("bob", b"no password").is_none());
        assert!(login("ftp", b"me@example.org").is_none());
        let peer = "192.0.2.1".parse().unwrap();
        let anybody = |name, password| users.anybody(name, password, peer);
        assert!(!anybody("ftp", b"me@example.org".as_slice()).unwrap().write);
        assert!(anybody("alice", b"correct horse").is_none());
    }

    #[test]
    fn anonymous_users_are_told_apart_by_host_and_address_and_are_no_named_user() {
        let dir = tempfile::tempdir().unwrap();
        let owner = |host, peer: &str| {
            let users = Users::open(&config(dir.path()), host, None, &Quotas::default()).unwrap();
            let peer = peer.parse().unwrap();
            users.anybody("anonymous", b"alice", peer).unwrap().owner
        };
        let here = owner(None, "192.0.2.1");
        assert_eq!(here, "anonymous\n\n192.0.2.1");
        assert_eq!(here, owner(None, "::ffff:192.0.2.1"));
        assert_ne!(here, owner(None, "192.0.2.2"));
        assert_ne!(here, owner(Some("b.example"), "192.0.2.1"));
    }

    #[test]
    fn an_unknown_name_takes_as_long_as_the_dearest_hash() {
        let dir = tempfile::tempdir().unwrap();
        let user = |name: &str, memory: u32, passes: u32| UserConfig {
            name: name.into(),
            password: format!(
                "$argon2id$v=19$m={memory},t={passes},p=1$c29tZXNhbHQ$\
                 AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
            ),
            ..UserConfig::default()
        };
        let config = Config {
            users: vec![
                user("alice", 64, 1),
                user("bob", 32, 8),
                user("carol", 16, 15),
            ],
            ..Config::new(dir.path())
        };
        let users = Users::open(&config, None, None, &Quotas::default()).unwrap();
        assert_eq!(users.decoy.unwrap().work(), 32 * 8);
    }

    #[test]
    fn a_plain_password_in_the_configuration_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        config.users[0].password = "secret".into();
        let error = Users::open(&config, None, None, &Quotas::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("user alice: the password is not a hash"),
            "{error}"
        );
    }
}
