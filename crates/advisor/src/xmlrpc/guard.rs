//! Restricts the XML of a call before anything is built from it.
//!
//! A call needs no document type, hence no entities, and no deep nesting; both cost a parser far more than
//! they cost the sender.

/// Maximum nesting depth; the deepest meaningful call has 7.
const MAX_DEPTH: usize = 64;

/// Why the text is refused; `Ok` does not mean that it is well-formed.
pub fn check(text: &str) -> Result<(), &'static str> {
    let mut depth = 0_usize;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = match rest.as_bytes().first() {
            Some(b'?') => "?>",
            Some(b'!') if rest.starts_with("!--") => "-->",
            Some(b'!') if rest.starts_with("![CDATA[") => "]]>",
            Some(b'!') => return Err("a call has no document type and no entities of its own"),
            Some(b'/') => {
                depth = depth.saturating_sub(1);
                ">"
            }
            _ => {
                depth += 1;
                ">"
            }
        };
        if depth > MAX_DEPTH {
            return Err("the call is nested too deeply");
        }
        let Some(closed) = rest.find(end) else {
            return Err("the call ends in the middle of a tag");
        };
        if end == ">" && rest[..closed].ends_with('/') {
            depth = depth.saturating_sub(1);
        }
        rest = &rest[closed + end.len()..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_passes() {
        let call = "<?xml version='1.0'?><!-- a > b --><methodCall><methodName>f</methodName>\
                    <params><param><value><![CDATA[<<<]]></value></param><param/></params></methodCall>";
        assert_eq!(check(call), Ok(()));
    }

    #[test]
    fn a_document_type_does_not() {
        let bomb =
            "<!DOCTYPE x [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><methodCall>&b;</methodCall>";
        assert!(check(bomb).is_err());
    }

    #[test]
    fn deep_nesting_does_not() {
        assert!(check(&"<value><array><data>".repeat(100)).is_err());
        assert!(check(&"<a></a>".repeat(1_000)).is_ok());
        assert!(check(&"<a/>".repeat(1_000)).is_ok());
    }

    #[test]
    fn an_open_tag_does_not() {
        assert!(check("<methodCall").is_err());
    }
}
