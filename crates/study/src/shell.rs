//! Text for the shell.

/// The text as one word of the shell, without quotes where it needs none.
pub fn word(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "/._-+,:@%".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_shell_would_change_is_quoted() {
        assert_eq!(word("/var/lib/fair-wind_1.0"), "/var/lib/fair-wind_1.0");
        assert_eq!(word("it's"), "'it'\\''s'");
        assert_eq!(word("$x"), "'$x'");
        assert_eq!(word(""), "''");
    }
}
