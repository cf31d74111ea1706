//! A scripted advisor, whose answers and their times are set by the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use serde_json::{Value, json};

/// The answer to one question.
#[derive(Clone)]
pub enum Reply {
    /// This JSON body.
    Advice(Value),
    /// These bytes instead of a valid body.
    Body(Vec<u8>),
    /// An error status.
    Failure,
    /// The advice, once the test has reached the barrier too.
    Held(Arc<Barrier>, Value),
    /// No answer: the connection stays open.
    Silence,
}

/// An advisor that runs in its own threads.
pub struct TestAdvisor {
    /// Where it listens.
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    results: Arc<Mutex<Vec<Value>>>,
}

impl TestAdvisor {
    /// Gives these answers in turn; the last one is repeated.
    pub fn answering(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let advisor = Self {
            address: listener.local_addr().unwrap(),
            asked: Arc::default(),
            results: Arc::default(),
        };
        let (asked, results) = (Arc::clone(&advisor.asked), Arc::clone(&advisor.results));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, results) = (Arc::clone(&asked), Arc::clone(&results));
                let replies = replies.clone();
                thread::spawn(move || serve(stream.unwrap(), &replies, &asked, &results));
            }
        });
        advisor
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The targets of all GET requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The results of transfers reported so far.
    pub fn results(&self) -> Vec<Value> {
        self.results.lock().unwrap().clone()
    }
}

/// Advice that leaves everything to the kernel and asks for the next question after `again` seconds, with
/// these changes applied to it.
pub fn advice(again: f64, changes: Value) -> Value {
    let mut advice = json!({
        "mode": "congestion-control", "congestion_control": null, "available_mbps": 40.0,
        "interval_mbps": [35.0, 45.0], "rtt_ms": 50.0, "send_buffer_bytes": null,
        "receive_buffer_bytes": null, "pacing_mbps": null, "threshold_mbps": 42.0,
        "next_advice": "2026-03-02T14:05:00Z", "model": "linear", "days_used": 63,
        "r_squared": 0.5, "reason": "because the test says so", "path": "test",
        "ask_again_after_s": again,
    });
    for (name, value) in changes.as_object().unwrap() {
        advice[name] = value.clone();
    }
    advice
}

fn serve(
    mut stream: TcpStream,
    replies: &[Reply],
    asked: &Mutex<Vec<String>>,
    results: &Mutex<Vec<Value>>,
) {
    let Some((line, body)) = request(&mut stream) else {
        return;
    };
    if line.starts_with("POST /v1/transfers") {
        results
            .lock()
            .unwrap()
            .push(serde_json::from_str(&body).unwrap());
        respond(&mut stream, "201 Created", br#"{"path":"test"}"#);
        return;
    }
    let reply = {
        let mut asked = asked.lock().unwrap();
        asked.push(line.split(' ').nth(1).unwrap().to_owned());
        replies[(asked.len() - 1).min(replies.len() - 1)].clone()
    };
    match reply {
        Reply::Advice(advice) => respond(&mut stream, "200 OK", advice.to_string().as_bytes()),
        Reply::Body(body) => respond(&mut stream, "200 OK", &body),
        Reply::Failure => respond(&mut stream, "500 Oh", br#"{"error":"no disk"}"#),
        Reply::Held(barrier, advice) => {
            barrier.wait();
            respond(&mut stream, "200 OK", advice.to_string().as_bytes());
        }
        // Until the client closes the connection.
        Reply::Silence => drop(stream.read(&mut [0])),
    }
}

/// The first line of the request and its body.
fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let line = line.to_lowercase();
            line.strip_prefix("content-length: ")?.parse().ok()
        });
        if body.len() >= length.unwrap_or(0) {
            return Some((head.lines().next()?.to_owned(), body.to_owned()));
        }
    }
}

fn respond(stream: &mut TcpStream, status: &str, body: &[u8]) {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    // The client may be gone.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body));
}
