//! `.netrc`: user names and passwords by host, as used by ftp(1), curl and others.

/// A login; either part may be missing.
#[derive(Clone, PartialEq, Eq, Default)]
pub(super) struct Login {
    /// The value of `login`.
    pub user: Option<String>,
    /// The value of `password`.
    pub password: Option<String>,
}

/// The login for a host and, if given, a user: that of the first matching `machine`, or of `default`.
pub(super) fn find(text: &str, host: &str, user: Option<&str>) -> Option<Login> {
    entries(text)
        .into_iter()
        .find(|(machine, login)| {
            let machine_fits = machine
                .as_deref()
                .is_none_or(|machine| machine.eq_ignore_ascii_case(host));
            let user_fits = match (user, &login.user) {
                (Some(wanted), Some(user)) => wanted == user,
                _ => true,
            };
            machine_fits && user_fits
        })
        .map(|(_, login)| login)
}

fn entries(text: &str) -> Vec<(Option<String>, Login)> {
    let mut entries: Vec<(Option<String>, Login)> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let words = words(line);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().cloned();
            match word.as_str() {
                "default" => entries.push((None, Login::default())),
                "machine" => entries.push((Some(value().unwrap_or_default()), Login::default())),
                "macdef" => {
                    // A macro ends with an empty line.
                    lines
                        .by_ref()
                        .take_while(|line| !line.trim().is_empty())
                        .for_each(drop);
                    break;
                }
                "login" => {
                    let value = value();
                    if let Some((_, login)) = entries.last_mut() {
                        login.user = value;
                    }
                }
                "password" => {
                    let value = value();
                    if let Some((_, login)) = entries.last_mut() {
                        login.password = value;
                    }
                }
                "account" => drop(value()),
                word if word.starts_with('#') => break,
                _ => {}
            }
        }
    }
    entries
}

/// Splits a line at blanks; a quoted word may contain blanks, and `\` makes the next character an ordinary
/// one.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = line.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let quoted = characters.next_if_eq(&'"').is_some();
        if characters.peek().is_none() {
            return words;
        }
        let mut word = String::new();
        while let Some(character) = characters.next() {
            match character {
                '"' if quoted => break,
                '\\' => word.extend(characters.next()),
                blank if blank.is_whitespace() && !quoted => break,
                other => word.push(other),
            }
        }
        words.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# mine
machine a.example login anna password s3
macdef init
machine b.example login trap password trap

machine b.example
  login ben
  password \"two words\"
machine b.example login ruth password r\\ 2
default login anonymous password me@here
";

    fn found(host: &str, user: Option<&str>) -> (String, String) {
        let login = find(TEXT, host, user).unwrap();
        (login.user.unwrap(), login.password.unwrap())
    }

    fn pair(user: &str, password: &str) -> (String, String) {
        (user.to_owned(), password.to_owned())
    }

    #[test]
    fn the_first_machine_that_fits_is_taken() {
        assert_eq!(found("A.example", None), pair("anna", "s3"));
        assert_eq!(found("b.example", None), pair("ben", "two words"));
        assert_eq!(found("b.example", Some("ruth")), pair("ruth", "r 2"));
        assert_eq!(found("c.example", None), pair("anonymous", "me@here"));
    }

    #[test]
    fn without_a_default_a_strange_host_has_nothing() {
        assert!(find("machine a login x", "b", None).is_none());
        assert!(find("machine a login x", "a", Some("y")).is_none());
    }
}
