//! Restricts the XML of a call before anything is built from it.
//!
//! A call needs no document type, hence no entities, and no deep nesting; both cost a parser far more than
//! they cost the sender.

/// Maximum nesting depth; the deepest meaningful call has 7.
const MAX_DEPTH: usize = 64;

/// Why the text is refused; `Ok` does not mean that it is well-formed.
pub(super) fn check(text: &str) -> Result<(), &'static str> {
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

#[cfg(test)]
mod fuzz {
    use dxr::{MethodCall, Value};
    use fairwind_testing::fuzz::{cases, damaged_text};
    use proptest::prelude::*;
    use proptest::sample::select;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::*;

    /// Calls by Python and Apache's client, what else XML allows, and what means harm.
    const TEXTS: [&str; 6] = [
        "<?xml version='1.0'?>\n<methodCall>\n<methodName>EnableGetAdvice</methodName>\n<params>\n\
         <param>\n<value><string>192.0.2.7</string></value>\n</param>\n<param>\n\
         <value><double>16000000000.0</double></value>\n</param>\n</params>\n</methodCall>\n",
        "<methodCall xmlns:ex=\"http://ws.apache.org/xmlrpc/namespaces/extensions\">\
         <methodName>EnableGetAdvice</methodName><params><param><value>192.0.2.7</value></param>\
         <param><value><ex:i8>5000000000</ex:i8></value></param></params></methodCall>",
        "<methodCall><!-- a > b --><methodName><![CDATA[f<]]></methodName><params/></methodCall>",
        "<value><struct><member><name>a</name><value><array><data><value/></data></array></value>\
         </member></struct></value>",
        "<!DOCTYPE x [<!ENTITY a \"ha\">]><methodCall a='1' b=\"2\">&a;</methodCall>",
        "<a x=\"><!--\"><!--><b><![CDATA[--></b><c/ ></c/><?d ?><e f='/'/>]]>-->",
    ];

    /// The deepest nesting that the parser of calls sees up to the first fault, and whether it sees a
    /// document type.
    fn seen_by_the_parser(text: &str) -> (usize, bool) {
        let mut reader = Reader::from_str(text);
        let (mut depth, mut deepest, mut has_type) = (0_usize, 0, false);
        loop {
            match reader.read_event() {
                Ok(Event::Start(_)) => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                Ok(Event::Empty(_)) => deepest = deepest.max(depth + 1),
                Ok(Event::End(_)) => depth = depth.saturating_sub(1),
                Ok(Event::DocType(_)) => has_type = true,
                Ok(Event::Eof) | Err(_) => return (deepest, has_type),
                Ok(_) => {}
            }
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            "\\PC{0,40}".prop_map(Value::String),
            any::<i32>().prop_map(Value::Integer),
            any::<i64>().prop_map(Value::Long),
            (-1e18..1e18_f64).prop_map(Value::Double),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Base64),
        ]
    }

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn what_passes_is_as_harmless_as_it_looks(text in damaged_text(&TEXTS)) {
            if check(&text).is_ok() {
                let (depth, has_type) = seen_by_the_parser(&text);
                prop_assert!(depth <= MAX_DEPTH, "{} levels", depth);
                prop_assert!(!has_type);
                // It is a call or a fault.
                let _ = MethodCall::from_xml(&text);
            }
        }

        #[test]
        fn nesting_is_allowed_up_to_the_limit(
            depth in 0..2 * MAX_DEPTH,
            tag in select(vec!["<a>", "<a b='1'>", "<b/><a>", "<a><!-- <c> -->", "<a></b ><b>"]),
        ) {
            // The last one opens two and closes one.
            prop_assert_eq!(check(&tag.repeat(depth)).is_ok(), depth <= MAX_DEPTH);
        }

        #[test]
        fn what_clients_write_passes(
            name in "[A-Za-z0-9_.:/]{1,30}",
            params in prop::collection::vec(value(), 0..4),
        ) {
            let params = vec![Value::Array(params)];
            let call = MethodCall { name: name.into(), params };
            prop_assert_eq!(check(&call.to_xml().unwrap()), Ok(()));
            prop_assert_eq!(check(&call.to_xml_pretty().unwrap()), Ok(()));
        }
    }
}
