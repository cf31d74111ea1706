//! Percent-encoding (RFC 3986).

use std::fmt::Write;

/// Names and values as the query of a URL, including the `?`; empty if there are none.
pub fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(&path_segment(name));
        query.push('=');
        query.push_str(&path_segment(value));
    }
    query
}

/// `text` as one segment of a URL's path: every byte except the unreserved characters of section 2.3 becomes `%` and two digits.
pub fn path_segment(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_characters_are_encoded() {
        assert_eq!(path_segment("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(
            query(&[("host", "2001:db8::7"), ("bytes", "5")]),
            "?host=2001%3Adb8%3A%3A7&bytes=5"
        );
        assert_eq!(query(&[]), "");
    }
}
