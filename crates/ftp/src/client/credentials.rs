//! User name and password for a server: from the URL, else `.netrc`, the environment or a prompt; without a
//! user name, the anonymous user.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::{ClientError, Place, netrc};

/// Environment variable with the password if neither the URL nor `.netrc` has one.
pub(super) const PASSWORD_VARIABLE: &str = "FAIRWIND_FTP_PASSWORD";

/// A user's name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// Prompts for a password with the given text; `None` if nobody can be asked.
pub type Ask<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Credentials {
    /// The anonymous user of RFC 1635.
    pub fn anonymous() -> Self {
        Self {
            user: "anonymous".into(),
            password: "fairwind@".into(),
        }
    }

    /// Finds the credentials for a place on a server.
    ///
    /// # Errors
    /// If a user is named but no password is found, or `.netrc` exists and cannot be read, or others may read the
    /// password that it has for a user.
    pub fn find(place: &Place, ask: Ask<'_>) -> Result<Self, ClientError> {
        if let (Some(user), Some(password)) = (&place.user, &place.password) {
            return Ok(Self {
                user: user.clone(),
                password: password.clone(),
            });
        }
        let netrc = Netrc::read()?;
        let find = |netrc: &Netrc| netrc::find(&netrc.text, &place.host, place.user.as_deref());
        let login = netrc.as_ref().and_then(find).unwrap_or_default();
        let Some(user) = place.user.clone().or(login.user) else {
            return Ok(Self::anonymous());
        };
        if user.eq_ignore_ascii_case("anonymous") || user.eq_ignore_ascii_case("ftp") {
            let password = login.password.unwrap_or_else(|| Self::anonymous().password);
            return Ok(Self { user, password });
        }
        let from_netrc = netrc.filter(|_| login.password.is_some());
        if let Some(netrc) = from_netrc.filter(|netrc| netrc.mode & 0o044 != 0) {
            return Err(ClientError::Usage(format!(
                "{0} has the password of {user}, and others may read it: chmod 600 {0}",
                netrc.path.display()
            )));
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

/// The file of logins.
struct Netrc {
    path: PathBuf,
    text: String,
    /// Permission bits, `0o000` to `0o777`.
    mode: u32,
}

impl Netrc {
    fn read() -> Result<Option<Self>, ClientError> {
        let path = match (env::var_os("NETRC"), env::var_os("HOME")) {
            (Some(path), _) => PathBuf::from(path),
            (None, Some(home)) => PathBuf::from(home).join(".netrc"),
            (None, None) => return Ok(None),
        };
        let mut text = String::new();
        let read = File::open(&path).and_then(|mut file| {
            file.read_to_string(&mut text)?;
            Ok(file.metadata()?.permissions().mode() & 0o777)
        });
        match read {
            Ok(mode) => Ok(Some(Self { path, text, mode })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ClientError::local(path)(error)),
        }
    }
}
