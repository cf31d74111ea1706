//! Admission of requests: by the name they were sent to, the page that sent them, and their token.
//!
//! A browser sends requests for any page to any address. A page that has its own name resolved to loopback
//! (DNS rebinding) is recognised by `Host`, which is then its name. A page that addresses the service
//! directly is recognised by `Origin`, which it can neither omit from a request that writes nor forge.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::error::refusal;
use crate::host;
use crate::listener::{Arrival, Right, Tokens};

/// Decides which requests are admitted.
#[derive(Debug)]
pub(super) struct Guard {
    /// Accepted names, in lower case, and addresses, besides those of loopback.
    names: Vec<String>,
    tokens: Option<Tokens>,
}

/// A refusal: status and message.
type Refused = (StatusCode, String);

impl Guard {
    /// Admits requests sent to one of these names, to loopback or to the address that was connected to; if
    /// there are tokens, requests need one.
    pub(super) fn new(names: &[String], tokens: Option<Tokens>) -> Guard {
        let names = names.iter().map(|name| plain(name)).collect();
        Guard { names, tokens }
    }

    /// The middleware that checks each request.
    pub(super) async fn admit(
        State(guard): State<Arc<Guard>>,
        request: Request,
        next: Next,
    ) -> Response {
        // Requests without this extension do not come from a socket but from the program itself.
        let came_by = request.extensions().get().copied();
        let judged = match came_by {
            Some(Arrival::Network(to)) => guard.judge(to, &request),
            Some(Arrival::Socket) | None => Ok(()),
        };
        match judged {
            Ok(()) => next.run(request).await,
            Err((status, sentence)) => {
                let mut response = refusal(status, sentence);
                if status == StatusCode::UNAUTHORIZED {
                    let bearer = HeaderValue::from_static("Bearer");
                    response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
                }
                response
            }
        }
    }

    fn judge(&self, to: IpAddr, request: &Request) -> Result<(), Refused> {
        let (uri, headers) = (request.uri(), request.headers());
        let called = called(uri, headers)?;
        if let Some(called) = &called {
            self.check_name(called, to)?;
        }
        check_origin(headers, called.as_ref())?;
        self.check_right(needed(request.method(), uri.path()), headers)
    }

    /// Checks that this is a name of the service.
    fn check_name(&self, called: &Authority, to: IpAddr) -> Result<(), Refused> {
        let name = plain(called.host());
        let is_ours = match host::address(&name) {
            Some(address) => address.is_loopback() || address == to,
            None => name == "localhost",
        };
        if is_ours || self.names.contains(&name) {
            return Ok(());
        }
        let sentence = format!("{name} is not a name of this advisor; to allow it: --name {name}");
        Err((StatusCode::MISDIRECTED_REQUEST, sentence))
    }

    fn check_right(&self, needed: Option<Right>, headers: &HeaderMap) -> Result<(), Refused> {
        let (Some(tokens), Some(needed)) = (&self.tokens, needed) else {
            return Ok(());
        };
        let Some(token) = bearer(headers) else {
            let sentence = "a token is needed: Authorization: Bearer TOKEN".to_owned();
            return Err((StatusCode::UNAUTHORIZED, sentence));
        };
        match tokens.right_of(token) {
            Some(right) if right >= needed => Ok(()),
            Some(_) => {
                let needed = needed.name();
                let sentence = format!("the token is not good for this: it needs one to {needed}");
                Err((StatusCode::FORBIDDEN, sentence))
            }
            None => Err((StatusCode::UNAUTHORIZED, "the token is unknown".to_owned())),
        }
    }
}

/// The right that a request needs; none for the health check.
fn needed(method: &Method, path: &str) -> Option<Right> {
    match path {
        "/healthz" => None,
        // XML-RPC calls only read, but are all sent by POST.
        "/" | "/RPC2" => Some(Right::Read),
        _ if method.is_safe() => Some(Right::Read),
        _ => Some(Right::Write),
    }
}

/// The host that the request was sent to (RFC 9112, section 3.2); `None` if it is missing, as HTTP/1.0
/// allows; browsers always send it.
fn called(uri: &Uri, headers: &HeaderMap) -> Result<Option<Authority>, Refused> {
    let wrong = || (StatusCode::BAD_REQUEST, "Host is not a name".to_owned());
    if let Some(authority) = uri.authority() {
        return Ok(Some(authority.clone()));
    }
    let Some(value) = single(headers, HOST)? else {
        return Ok(None);
    };
    let authority = Authority::try_from(value.as_bytes()).map_err(|_| wrong())?;
    if authority.as_str().contains('@') {
        return Err(wrong());
    }
    Ok(Some(authority))
}

/// A page may only send requests to its own origin.
fn check_origin(headers: &HeaderMap, called: Option<&Authority>) -> Result<(), Refused> {
    let Some(origin) = single(headers, ORIGIN)? else {
        return Ok(());
    };
    let place = origin.to_str().ok().and_then(|origin| {
        let place = origin.strip_prefix("http://");
        place.or_else(|| origin.strip_prefix("https://"))
    });
    let same = place
        .zip(called)
        .is_some_and(|(place, called)| place.eq_ignore_ascii_case(called.as_str()));
    let sentence = "pages of other origins may not use this advisor";
    same.then_some(())
        .ok_or((StatusCode::FORBIDDEN, sentence.to_owned()))
}

/// The header's value; an error if it occurs twice.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Refused> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (_, Some(_)) => Err((StatusCode::BAD_REQUEST, format!("{name} is there twice"))),
        (value, None) => Ok(value),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

/// The canonical form of a host name: in lower case, without the trailing dot; an address without brackets.
fn plain(name: &str) -> String {
    match host::address(name) {
        Some(address) => address.to_string(),
        None => name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The status of a request with these headers that arrived at 192.0.2.1.
    fn status(guard: &Guard, method: &str, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        match guard.judge("192.0.2.1".parse().unwrap(), &request) {
            Ok(()) => 200,
            Err((status, _)) => status.as_u16(),
        }
    }

    #[test]
    fn only_names_of_ours_are_answered() {
        let guard = Guard::new(&["Advisor.example.org".to_owned()], None);
        for (host, expected) in [
            ("127.0.0.1:8649", 200),
            ("127.8.8.8", 200),
            ("[::1]:8649", 200),
            ("localhost:9000", 200),
            ("LOCALHOST.", 200),
            ("192.0.2.1:8649", 200),
            ("advisor.example.org.:8649", 200),
            ("192.0.2.2", 421),
            ("evil.example:8649", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("evil.example@127.0.0.1", 400),
            ("a b", 400),
        ] {
            assert_eq!(
                status(&guard, "GET", "/", &[("host", host)]),
                expected,
                "{host}"
            );
        }
        let twice = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert_eq!(status(&guard, "GET", "/", &twice), 400);
        let absolute = "http://evil.example/v1/paths";
        let hidden = [("host", "127.0.0.1")];
        assert_eq!(status(&guard, "GET", absolute, &hidden), 421);
    }

    #[test]
    fn pages_of_other_origins_are_refused() {
        let guard = Guard::new(&[], None);
        for (origin, expected) in [
            ("http://127.0.0.1:8649", 200),
            ("https://127.0.0.1:8649", 200),
            ("http://evil.example", 403),
            ("http://127.0.0.1:8650", 403),
            ("http://127.0.0.1", 403),
            ("null", 403),
            ("", 403),
        ] {
            let headers = [("host", "127.0.0.1:8649"), ("origin", origin)];
            let got = status(&guard, "POST", "/v1/transfers", &headers);
            assert_eq!(got, expected, "{origin:?}");
        }
        let no_host = [("origin", "http://127.0.0.1:8649")];
        assert_eq!(status(&guard, "POST", "/RPC2", &no_host), 403);
    }
}
