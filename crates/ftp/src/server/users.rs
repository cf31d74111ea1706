//! Who may log in, and to which files.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};

use super::config::Config;
use super::files::Root;

/// A user who is logged in.
#[derive(Debug, Clone)]
pub struct User {
    /// The name, or for anonymous users what they gave as password.
    pub name: String,
    /// Whether the user has no name of its own.
    pub anonymous: bool,
    /// Whether the user may write.
    pub write: bool,
    /// The user's files.
    pub root: Arc<Root>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    anonymous: Option<User>,
    named: HashMap<String, (String, User)>,
    /// A hash that no password has, so that an unknown name takes as long as a wrong password.
    decoy: String,
}

/// A hash of `password` for the configuration: Argon2id with the crate's defaults (RFC 9106's second
/// recommendation is heavier; these are OWASP's: 19 MiB, two passes).
///
/// # Errors
/// The system has no random numbers.
pub fn hash_password(password: &str) -> io::Result<String> {
    Argon2::default()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|error| io::Error::other(error.to_string()))
}

fn is_anonymous(name: &str) -> bool {
    name.eq_ignore_ascii_case("anonymous") || name.eq_ignore_ascii_case("ftp")
}

impl Users {
    /// The users of the configuration, with their directories open.
    ///
    /// # Errors
    /// The directory, name or hash that is wrong.
    pub fn open(config: &Config) -> io::Result<Self> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let root = Arc::new(Root::open(&config.root)?);
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
            PasswordHash::new(&user.password).map_err(|error| {
                invalid(format!(
                    "user {}: the password is no hash ({error}); fairwind serve --hash-password makes one",
                    user.name
                ))
            })?;
            let root = match &user.home {
                Some(home) => Arc::new(root.descend(home).map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("user {}: home {}: {error}", user.name, home.display()),
                    )
                })?),
                None => Arc::clone(&root),
            };
            let entry = User {
                name: user.name.clone(),
                anonymous: false,
                write: user.write,
                root,
            };
            if named
                .insert(user.name.clone(), (user.password.clone(), entry))
                .is_some()
            {
                return Err(invalid(format!("user {}: named twice", user.name)));
            }
        }
        let anonymous = config.anonymous.then(|| User {
            name: "anonymous".into(),
            anonymous: true,
            write: false,
            root,
        });
        Ok(Self {
            anonymous,
            decoy: hash_password("no password")?,
            named,
        })
    }

    /// Whether `name` needs no password of its own.
    pub fn welcomes_anybody(&self, name: &str) -> bool {
        is_anonymous(name) && self.anonymous.is_some()
    }

    /// The user, if the password is right. Takes some 20 ms and 19 MiB on purpose.
    pub fn login(&self, name: &str, password: &[u8]) -> Option<User> {
        if is_anonymous(name) {
            let mut user = self.anonymous.clone()?;
            let given = crate::protocol::path::one_line(password);
            if !given.trim().is_empty() {
                user.name = given.trim().chars().take(64).collect();
            }
            return Some(user);
        }
        let found = self.named.get(name);
        let hash = found.map_or(&self.decoy, |(hash, _)| hash);
        let hash = PasswordHash::new(hash).ok()?;
        let right = Argon2::default().verify_password(password, &hash).is_ok();
        found.filter(|_| right).map(|(_, user)| user.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::UserConfig;
    use super::*;

    fn config(dir: &std::path::Path) -> Config {
        Config {
            users: vec![UserConfig {
                name: "alice".into(),
                password: hash_password("correct horse").unwrap(),
                home: None,
                write: true,
            }],
            ..Config::new(dir)
        }
    }

    #[test]
    fn a_name_logs_in_with_its_own_password_only() {
        let dir = tempfile::tempdir().unwrap();
        let users = Users::open(&config(dir.path())).unwrap();
        assert!(users.login("alice", b"correct horse").unwrap().write);
        assert!(users.login("alice", b"wrong").is_none());
        assert!(users.login("bob", b"no password").is_none());
        assert!(!users.login("ftp", b"me@example.org").unwrap().write);
    }

    #[test]
    fn a_plain_password_in_the_configuration_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        config.users[0].password = "secret".into();
        let error = Users::open(&config).unwrap_err().to_string();
        assert!(
            error.starts_with("user alice: the password is no hash"),
            "{error}"
        );
    }
}
