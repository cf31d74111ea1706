//! Who the user is to a server: as the URL says, or `.netrc`, or the environment, or the user when
//! asked; otherwise nobody in particular.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use super::{ClientError, Place, netrc};

/// The environment variable for a password that neither the URL nor `.netrc` has.
pub const PASSWORD_VARIABLE: &str = "FAIRWIND_FTP_PASSWORD";

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// Name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// Asks the user for the password of a user at a server; none if nobody can be asked.
pub type Ask<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Credentials {
    /// The user that RFC 1635 calls anonymous.
    pub fn anonymous() -> Self {
        Self {
            user: "anonymous".into(),
            password: "fairwind@".into(),
        }
    }

    /// For a place on a server.
    ///
    /// # Errors
    /// A user is named and nobody knows the password; `.netrc` is there and cannot be read.
    pub fn find(place: &Place, ask: Ask<'_>) -> Result<Self, ClientError> {
        if let (Some(user), Some(password)) = (&place.user, &place.password) {
            return Ok(Self {
                user: user.clone(),
                password: password.clone(),
            });
        }
        let login = match netrc_text()? {
            Some(text) => netrc::find(&text, &place.host, place.user.as_deref()),
            None => None,
        }
        .unwrap_or_default();
        let Some(user) = place.user.clone().or(login.user) else {
            return Ok(Self::anonymous());
        };
        if user.eq_ignore_ascii_case("anonymous") || user.eq_ignore_ascii_case("ftp") {
            let password = login.password.unwrap_or_else(|| Self::anonymous().password);
            return Ok(Self { user, password });
        }
        let password = login
            .password
            .or_else(|| env::var(PASSWORD_VARIABLE).ok())
            .or_else(|| ask(&format!("Password of {user} at {}: ", place.server())))
            .ok_or_else(|| {
                ClientError::Usage(format!(
                    "no password for {user} at {}: put it into ~/.netrc or {PASSWORD_VARIABLE}",
                    place.server()
                ))
            })?;
        Ok(Self { user, password })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.user)
    }
}

fn netrc_text() -> Result<Option<String>, ClientError> {
    let path = match (env::var_os("NETRC"), env::var_os("HOME")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => PathBuf::from(home).join(".netrc"),
        (None, None) => return Ok(None),
    };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ClientError::local(path)(error)),
    }
}
