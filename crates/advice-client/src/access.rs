//! Authentication between a client and an advisor: the client's token, the server's certificate.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::ClientError;

/// The environment variable with a token.
pub(crate) const TOKEN: &str = "FAIRWIND_ADVISOR_TOKEN";
/// The environment variable with the path of a file whose first line is a token.
pub(crate) const TOKEN_FILE: &str = "FAIRWIND_ADVISOR_TOKEN_FILE";

/// A bearer token (RFC 6750). It never appears in messages.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// A token of the syntax of RFC 6750, section 2.1; `None` if `text` is empty or has other characters.
    pub(crate) fn new(text: &str) -> Option<Token> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        let sound = !text.is_empty() && text.bytes().all(allowed);
        sound.then(|| Token(text.to_owned()))
    }

    /// The token in the environment, if there is one. [`TOKEN`] takes precedence over [`TOKEN_FILE`].
    pub(crate) fn of_environment(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Token>, ClientError> {
        if let Some(text) = variable(TOKEN) {
            return match Token::new(text.trim()) {
                Some(token) => Ok(Some(token)),
                None => Err(ClientError::Token(format!("{TOKEN} holds no token"))),
            };
        }
        let Some(file) = variable(TOKEN_FILE) else {
            return Ok(None);
        };
        let wrong = |what: String| ClientError::Token(format!("{TOKEN_FILE}: {file}: {what}"));
        let text = read(&file).map_err(|error| wrong(error.to_string()))?;
        let first = text.lines().next().unwrap_or_default().trim();
        match Token::new(first) {
            Some(token) => Ok(Some(token)),
            None => Err(wrong("its first line is not a token".to_owned())),
        }
    }

    /// The value of the header `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

/// Reads a file, but refuses one that every user may read.
fn read(file: &str) -> io::Result<String> {
    let mut opened = fs::File::open(file)?;
    if opened.metadata()?.permissions().mode() & 0o004 != 0 {
        let fix = format!("everybody may read the token: chmod 600 {file}");
        return Err(io::Error::other(fix));
    }
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(text)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// A TLS configuration with the system's trusted authorities, or those in the files named by the
/// variables `SSL_CERT_FILE` and `SSL_CERT_DIR`.
pub(crate) fn tls() -> Result<TlsConfig, ClientError> {
    let found = rustls_native_certs::load_native_certs();
    let certificates: Vec<Certificate<'static>> = found
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    if certificates.is_empty() {
        let errors = found.errors.iter().map(ToString::to_string);
        let errors: Vec<String> = errors.collect();
        return Err(ClientError::Trust(errors.join("; ")));
    }
    let provider = rustls::crypto::ring::default_provider();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::from(certificates))
        .unversioned_rustls_crypto_provider(Arc::new(provider))
        .build())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn of(set: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variable = |name: &str| {
            let found = set.iter().find(|(set, _)| *set == name)?;
            Some(found.1.to_owned())
        };
        match Token::of_environment(variable) {
            Ok(token) => Ok(token.map(|token| token.header())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Creates a file with the given text and permissions.
    fn file(name: &str, text: &str, mode: u32) -> PathBuf {
        let file = std::env::temp_dir().join(format!("token-{name}-{}", std::process::id()));
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_file_that_everybody_may_read_is_refused() {
        let place = file("open", "abc.DEF\n", 0o644);
        let error = of(&[(TOKEN_FILE, place.to_str().unwrap())]).unwrap_err();
        fs::remove_file(&place).unwrap();
        let fix = format!("chmod 600 {}", place.display());
        assert!(error.contains(&fix), "{error}");
    }

    #[test]
    fn a_token_comes_from_a_variable_or_the_first_line_of_a_file() {
        let place = file("first", "abc.DEF\nsecond\n", 0o640);
        let file = place.to_str().unwrap();
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(TOKEN, "t1 ")]), Ok(Some("Bearer t1".to_owned())));
        let from_file = of(&[(TOKEN_FILE, file)]);
        assert_eq!(from_file, Ok(Some("Bearer abc.DEF".to_owned())));
        fs::remove_file(&place).unwrap();
        assert!(of(&[(TOKEN_FILE, file)]).unwrap_err().contains(file));
    }

    #[test]
    fn what_is_no_token_is_named_but_not_shown() {
        let error = of(&[(TOKEN, "sec ret")]).unwrap_err();
        assert!(error.contains(TOKEN) && !error.contains("sec"), "{error}");
        let shown = format!("{:?}", Token::new("secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
