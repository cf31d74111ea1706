//! What has happened since the server began, in the text format of Prometheus (version 0.0.4), for requests on
//! loopback.
//!
//! A browser on the same machine sends requests for any page. A page whose name leads to loopback is recognised
//! by `Host`, one that addresses the server directly by `Origin`.

use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Context;
use std::time::Duration;

use fairwind_transfer::Direction;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::roster::index;
use super::{Ledger, attend};

/// Concurrent requests; further ones wait.
const REQUESTS: usize = 8;

/// Longest request, bytes, and time for it and for its answer.
const LONGEST: usize = 8 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a client was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its network is denied.
    Network,
    /// There are too many sessions in all, or from its address.
    Sessions,
    /// Its user has too many sessions.
    User,
    /// There were too many wrong passwords from its address.
    Banned,
    /// No descriptor was free.
    Descriptors,
}

const REFUSALS: [(Refusal, &str); 5] = [
    (Refusal::Network, "network"),
    (Refusal::Sessions, "sessions"),
    (Refusal::User, "user"),
    (Refusal::Banned, "banned"),
    (Refusal::Descriptors, "descriptors"),
];

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    sessions: AtomicU64,
    refused: [AtomicU64; REFUSALS.len()],
    /// Named, anonymous.
    logins: [AtomicU64; 2],
    wrong_passwords: AtomicU64,
    commands: AtomicU64,
    /// By direction, and whether they were complete.
    transfers: [[AtomicU64; 2]; 2],
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn session(&self) {
        count(&self.sessions);
    }

    pub(super) fn refusal(&self, why: Refusal) {
        count(&self.refused[why as usize]);
    }

    pub(super) fn login(&self, anonymous: bool) {
        count(&self.logins[usize::from(anonymous)]);
    }

    pub(super) fn wrong_password(&self) {
        count(&self.wrong_passwords);
    }

    pub(super) fn command(&self) {
        count(&self.commands);
    }

    pub(super) fn transfer(&self, direction: Direction, complete: bool) {
        count(&self.transfers[index(direction)][usize::from(complete)]);
    }
}

/// The text of all metrics.
fn text(ledger: &Ledger) -> String {
    let counters = &ledger.counters;
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (sessions, moving, bytes) = ledger.roster.totals();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, u64)]| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "# HELP fairwind_ftp_{name} {help}\n# TYPE fairwind_ftp_{name} {kind}"
        );
        for (labels, value) in values {
            let _ = writeln!(text, "fairwind_ftp_{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value)];
    family("sessions", "gauge", "Sessions now.", &one(sessions as u64));
    family(
        "transfers",
        "gauge",
        "Transfers of files now.",
        &one(moving as u64),
    );
    family(
        "sessions_total",
        "counter",
        "Sessions.",
        &one(of(&counters.sessions)),
    );
    let refused = REFUSALS.map(|(why, name)| {
        (
            format!("{{reason=\"{name}\"}}"),
            of(&counters.refused[why as usize]),
        )
    });
    family(
        "refused_total",
        "counter",
        "Clients refused, by reason.",
        &refused,
    );
    let logins = ["named", "anonymous"].map(|kind| format!("{{user=\"{kind}\"}}"));
    let logins: Vec<_> = logins
        .into_iter()
        .zip(counters.logins.iter().map(of))
        .collect();
    family("logins_total", "counter", "Logins.", &logins);
    family(
        "wrong_passwords_total",
        "counter",
        "Wrong passwords.",
        &one(of(&counters.wrong_passwords)),
    );
    family(
        "commands_total",
        "counter",
        "Commands.",
        &one(of(&counters.commands)),
    );
    let mut transfers = Vec::new();
    for (way, counters) in ["sent", "received"].iter().zip(&counters.transfers) {
        for (complete, counter) in ["false", "true"].iter().zip(counters) {
            let labels = format!("{{direction=\"{way}\",complete=\"{complete}\"}}");
            transfers.push((labels, of(counter)));
        }
    }
    family(
        "transfers_total",
        "counter",
        "Transfers of files that have ended.",
        &transfers,
    );
    let ways = ["sent", "received"].map(|way| format!("{{direction=\"{way}\"}}"));
    let bytes: Vec<_> = ways.into_iter().zip(bytes).collect();
    family(
        "bytes_total",
        "counter",
        "Bytes of files moved over data connections, running transfers included.",
        &bytes,
    );
    text
}

/// Answers requests until it is dropped.
pub(super) async fn serve(listener: std::net::TcpListener, ledger: Arc<Ledger>) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let accept =
        |context: &mut Context<'_>| listener.poll_accept(context).map_ok(|(stream, _)| stream);
    attend::each(accept, REQUESTS, PATIENCE, move |stream| {
        let ledger = Arc::clone(&ledger);
        async move { answer(stream, &ledger).await }
    })
    .await;
    Ok(())
}

async fn answer(mut stream: TcpStream, ledger: &Ledger) -> io::Result<()> {
    let to = stream.local_addr()?.ip();
    let mut request = Vec::new();
    let (status, body) = loop {
        let mut bytes = [0; 1 << 10];
        let count = stream.read(&mut bytes).await?;
        request.extend_from_slice(&bytes[..count]);
        match judged(&request, to) {
            Some(Ok(())) => break ("200 OK", text(ledger)),
            Some(Err(status)) => break (status, format!("{status}\n")),
            None if count == 0 => return Ok(()),
            None if request.len() > LONGEST => {
                let status = "431 Request Header Fields Too Large";
                break (status, format!("{status}\n"));
            }
            None => {}
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Whether a request to this address of ours is answered, or with which status not; none if it is incomplete.
fn judged(request: &[u8], to: IpAddr) -> Option<Result<(), &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Partial) => return None,
        Err(_) => return Some(Err("400 Bad Request")),
        Ok(httparse::Status::Complete(_)) => {}
    }
    let all = |name: &str| {
        let headers = parsed.headers.iter();
        let named = headers.filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value).collect::<Vec<_>>()
    };
    let is_ours = match all("host")[..] {
        [host] => is_ours(host, to),
        // HTTP/1.0; browsers always send it.
        [] => parsed.version == Some(0),
        _ => return Some(Err("400 Bad Request")),
    };
    Some(if !is_ours {
        Err("421 Misdirected Request")
    } else if !all("origin").is_empty() {
        Err("403 Forbidden")
    } else if parsed.method != Some("GET") {
        Err("405 Method Not Allowed")
    } else if parsed.path.and_then(|path| path.split('?').next()) != Some("/metrics") {
        Err("404 Not Found")
    } else {
        Ok(())
    })
}

/// Whether `Host` names loopback or the address that was connected to.
fn is_ours(host: &[u8], to: IpAddr) -> bool {
    let Ok(host) = std::str::from_utf8(host) else {
        return false;
    };
    if let Ok(address) = host.parse::<SocketAddr>() {
        return address.ip().is_loopback() || address.ip() == to;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == to,
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    fn judged(request: &str) -> Option<Result<(), &'static str>> {
        super::judged(request.as_bytes(), "127.0.0.1".parse().unwrap())
    }

    #[test]
    fn only_requests_to_this_machine_from_no_page_are_answered() {
        let of = |headers: &str| judged(&format!("GET /metrics HTTP/1.1\r\n{headers}\r\n"));
        for host in [
            "127.0.0.1:9100",
            "localhost",
            "LOCALHOST:9100",
            "[::1]:9100",
            "[::1]",
        ] {
            assert_eq!(of(&format!("Host: {host}\r\n")), Some(Ok(())), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9100",
            "192.0.2.1",
            "localhost.evil.example",
        ] {
            let refused = Some(Err("421 Misdirected Request"));
            assert_eq!(of(&format!("Host: {host}\r\n")), refused, "{host}");
        }
        let page = of("Host: localhost\r\nOrigin: http://evil.example\r\n");
        assert_eq!(page, Some(Err("403 Forbidden")));
        assert_eq!(
            of("Host: localhost\r\nHost: x\r\n"),
            Some(Err("400 Bad Request"))
        );
        assert_eq!(of(""), Some(Err("421 Misdirected Request")));
    }

    #[test]
    fn other_requests_get_their_status() {
        let of = |line: &str| judged(&format!("{line}\r\nHost: localhost\r\n\r\n"));
        assert_eq!(
            of("POST /metrics HTTP/1.1"),
            Some(Err("405 Method Not Allowed"))
        );
        assert_eq!(of("GET / HTTP/1.1"), Some(Err("404 Not Found")));
        assert_eq!(judged("nonsense\r\n\r\n"), Some(Err("400 Bad Request")));
        assert_eq!(judged("GET /metrics HTTP/1.0\r\n\r\n"), Some(Ok(())));
        assert_eq!(judged("GET /met"), None);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    const REQUESTS: [&[u8]; 5] = [
        b"GET /metrics HTTP/1.1\r\nHost: localhost:9121\r\nAccept: text/plain\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nhost: [::1]\r\n\r\n",
        b"GET /metrics?x HTTP/1.0\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n",
    ];

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn what_is_answered_asks_for_the_metrics_of_this_machine(request in damaged(&REQUESTS)) {
            let to = "127.0.0.1".parse().unwrap();
            if super::judged(&request, to) == Some(Ok(())) {
                let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
                prop_assert!(text.contains("get /metrics"));
                let is_ours = ["localhost", "127.0.0.1", "::1", "http/1.0"];
                prop_assert!(is_ours.iter().any(|name| text.contains(name)), "{text}");
            }
        }
    }
}
