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
        let (begin, end) = match rest.as_bytes().first() {
            Some(b'?') => ("?", "?>"),
            Some(b'!') if rest.starts_with("!--") => ("!--", "-->"),
            Some(b'!') if rest.starts_with("![CDATA[") => ("![CDATA[", "]]>"),
            Some(b'!') => return Err("a call has no document type and no entities of its own"),
            Some(b'/') => ("/", ">"),
            _ => ("", ">"),
        };
        // The end of `<!-->` is not that of a comment.
        rest = &rest[begin.len()..];
        let Some(closed) = rest.find(end) else {
            return Err("the call ends in the middle of a tag");
        };
        let inside = &rest[..closed];
        if end == ">" && has_open_quote(inside) {
            return Err("a tag of the call has > between quotation marks");
        }
        match begin {
            "/" => depth = depth.saturating_sub(1),
            "" if depth == MAX_DEPTH => return Err("the call is nested too deeply"),
            "" if !inside.ends_with('/') => depth += 1,
            _ => {}
        }
        rest = &rest[closed + end.len()..];
    }
    Ok(())
}

/// Whether a tag goes on behind this text, as a parser sees it.
fn has_open_quote(tag: &str) -> bool {
    tag.chars()
        .fold(None, |open, character| match open {
            None => Some(character).filter(|character| matches!(character, '"' | '\'')),
            Some(quote) => open.filter(|_| character != quote),
        })
        .is_some()
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

    #[test]
    fn nothing_is_hidden_in_what_only_looks_like_a_comment() {
        let deep = "<value><array><data>".repeat(100);
        assert!(check(&format!("<a x=\"><!--\">{deep}-->")).is_err());
        assert!(check(&format!("<a x='><![CDATA['>{deep}]]>")).is_err());
        assert!(check(&format!("<!--><![CDATA[-->{deep}]]>")).is_err());
    }

    #[test]
    fn a_tag_that_closes_twice_closes_once() {
        let pair = "<a/ ></a/>";
        assert!(check(&format!("<b>{pair}").repeat(65)).is_err());
        assert!(check(&format!("<b>{pair}</b>").repeat(65)).is_ok());
    }
}
