//! What the module makes of the bytes that an advisor sends, natively and with the compiler's sanitizers.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use fairwind_testing::advisor::advice;
use fairwind_testing::or_skip;
use serde_json::{Value, json};

/// Compiles a program of the module's `tests` with parts of the module.
fn compiled(name: &str, parts: &[&str]) -> Result<tempfile::TempDir, String> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proftpd");
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("gcc");
    command.args("-g -O1 -D_GNU_SOURCE -Wall -Wextra -Werror -fno-sanitize-recover=all".split(' '));
    command.args(["-fsanitize=address,undefined", "-o"]);
    command.arg(folder.path().join("program"));
    command.arg(module.join("tests").join(name));
    command.args(parts.iter().map(|part| module.join(part)));
    let output = command.output().map_err(|error| format!("gcc: {error}"))?;
    match output.status.success() {
        true => Ok(folder),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The program that reads answers.
struct Reader {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Reader {
    fn start() -> Result<Self, String> {
        let folder = compiled("answers.c", &["advice.c"])?;
        let mut child = Command::new(folder.path().join("program"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        })
    }

    /// What it says of these bytes; its standard error has the reason if it ends.
    fn read(&mut self, bytes: &[u8], is_all: bool) -> String {
        let mut framed = (bytes.len() as u32).to_ne_bytes().to_vec();
        framed.push(is_all.into());
        framed.extend_from_slice(bytes);
        let mut line = String::new();
        let written = self.input.write_all(&framed);
        let read = written.and_then(|()| self.output.read_line(&mut line));
        match read {
            Ok(1..) => line.trim_end_matches('\n').to_owned(),
            _ => panic!("it has ended: {:?}", self.child.wait()),
        }
    }
}

/// One for all tests.
fn reader() -> Option<MutexGuard<'static, Reader>> {
    static READER: LazyLock<Result<Mutex<Reader>, String>> =
        LazyLock::new(|| Reader::start().map(Mutex::new));
    let reader = or_skip(READER.as_ref())?;
    Some(reader.lock().unwrap_or_else(PoisonError::into_inner))
}

fn response(body: &str) -> Vec<u8> {
    let head = format!(
        "HTTP/1.0 200 OK\r\ncontent-type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

fn sound(changes: Value) -> Vec<u8> {
    response(&advice(5.0, changes).to_string())
}

#[test]
fn sound_advice_is_read() {
    let Some(mut reader) = reader() else {
        return;
    };
    assert_eq!(
        reader.read(&sound(json!({})), false),
        "congestion-control||0|5000000|0|0|5000|because the test says so"
    );
    let all = json!({
        "mode": "no-congestion-control", "congestion_control": "fw_nocc", "pacing_mbps": 80.25,
        "send_buffer_bytes": 625_000, "receive_buffer_bytes": 4096,
        "reason": "é \u{7f} \n\"quoted\"", "hops": [{"a": [1, -2.5e-3, true, null]}, {}],
    });
    assert_eq!(
        reader.read(&sound(all), false),
        "no-congestion-control|fw_nocc|10031250|5000000|625000|4096|5000|?? ?  \"quoted\""
    );
    let rate = json!({ "full_mode": "rate", "pacing_mbps": 1e1 });
    assert!(
        reader
            .read(&sound(rate), false)
            .starts_with("rate||1250000|")
    );
    // It ends with the connection if it has no length.
    let body = advice(0.0, json!({})).to_string();
    let open = format!("HTTP/1.1 200 OK\n\n{body}").into_bytes();
    assert_eq!(reader.read(&open, false), "incomplete");
    assert!(
        reader.read(&open, true).contains("|100|"),
        "at most ten questions a second"
    );
}

#[test]
fn what_is_no_advice_is_told_in_a_line() {
    let Some(mut reader) = reader() else {
        return;
    };
    for (bytes, said) in [
        (&b"SSH-2.0-x\r\n"[..], "what answers does not speak HTTP"),
        (b"", "its answer ends too early"),
        (b"HTTP/1.1 404 No\r\n\r\n", "it answers with status 404"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "the length of its answer makes no sense",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n",
            "the length of its answer makes no sense",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "its answer comes in pieces",
        ),
        (
            b"HTTP/1.1 200 OK\r\n\r\n{}",
            "its answer is not the JSON of an advisor",
        ),
        (
            b"HTTP/1.1 200 OK\r\n\r\n{\"mode\":\"congestion-control\"} x",
            "its answer is not the JSON of an advisor",
        ),
        (
            b"HTTP/1.1 200 OK\r\n\r\n{\"mode\":\"congestion-control\"}",
            "it does not say when to ask again",
        ),
    ] {
        assert_eq!(reader.read(bytes, true), format!("useless: {said}"));
    }
    // Whatever is in it, and however its end is told.
    let long = " ".repeat(16 << 10);
    for head in [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), response(&long)] {
        let bytes = [&head[..], long.as_bytes()].concat();
        for is_all in [true, false] {
            assert_eq!(
                reader.read(&bytes, is_all),
                "useless: its answer is too long"
            );
        }
    }
    let twice = response(
        r#"{"mode":"congestion-control","mode":"no-congestion-control","ask_again_after_s":1}"#,
    );
    assert!(reader.read(&twice, true).contains("not the JSON"));
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(2000), "]".repeat(2000));
    assert!(reader.read(&response(&deep), true).contains("not the JSON"));
    for (change, said) in [
        (
            json!({ "send_buffer_bytes": 4095 }),
            "send buffer of 4095 bytes",
        ),
        (
            json!({ "receive_buffer_bytes": -1 }),
            "receive buffer of -1 bytes",
        ),
        (
            json!({ "available_mbps": -3 }),
            "available bandwidth of -3 Mbit/s",
        ),
        (json!({ "pacing_mbps": 1e7 }), "pacing at 1e+07 Mbit/s"),
        (json!({ "rtt_ms": -1 }), "round-trip time of -1 ms"),
        (
            json!({ "congestion_control": "" }),
            "its congestion control has no name that one can have",
        ),
        (
            json!({ "congestion_control": "a name of 16 by" }),
            "its congestion control has no name that one can have",
        ),
        (
            json!({ "full_mode": "background" }),
            "the mode is background, but it names no control for that",
        ),
        (
            json!({ "full_mode": "rate" }),
            "the mode is rate, but it has no pacing",
        ),
        (json!({ "full_mode": "warp" }), "the mode is unknown"),
    ] {
        assert_eq!(
            reader.read(&sound(change), true),
            format!("useless: {said}")
        );
    }
}

#[test]
fn bounds_and_what_sessions_share_keep_their_laws() {
    let parts = ["bounds.c", "shared.c", "advice.c"];
    let Some(folder) = or_skip(compiled("units.c", &parts)) else {
        return;
    };
    let output = Command::new(folder.path().join("program"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "all hold\n",
        "{said}"
    );
}

mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn examples() -> Vec<Vec<u8>> {
        let off = json!({ "mode": "no-congestion-control", "congestion_control": "nocc", "pacing_mbps": 80.25 });
        let deep = json!({ "x": [[[{ "y": [1e-7, -0.5, true, false, null, "\u{e9}\\\"\n"] }]]] });
        let open = format!("HTTP/1.1 200 OK\n\n{}", advice(1e9, json!({})));
        vec![sound(json!({})), sound(off), sound(deep), open.into_bytes()]
    }

    proptest! {
        #![proptest_config(cases(2_000))]

        #[test]
        fn any_bytes_are_advice_or_a_reason_and_mean_the_same_in_pieces(
            bytes in damaged(&examples()), cut in any::<Index>(),
        ) {
            let Some(mut reader) = reader() else {
                return Ok(());
            };
            let whole = reader.read(&bytes, true);
            prop_assert!(whole != "incomplete");
            prop_assert!(!whole.contains(char::is_control), "{}", whole);
            let part = reader.read(&bytes[..cut.index(bytes.len() + 1)], false);
            prop_assert!(part == "incomplete" || part == whole, "{} {}", part, whole);
        }

        #[test]
        fn numbers_are_those_that_were_written(
            pacing in 0.1..1e6f64, available in 0.0..1e6f64, again in 0.1..86_400f64, buffer in 4096u32..=1 << 30,
        ) {
            let Some(mut reader) = reader() else {
                return Ok(());
            };
            let changes = json!({
                "pacing_mbps": pacing, "available_mbps": available, "send_buffer_bytes": buffer,
                "ask_again_after_s": again,
            });
            let line = reader.read(&sound(changes), false);
            let read: Vec<f64> = line.split('|').skip(2).map_while(|word| word.parse().ok()).collect();
            let written = [pacing * 125e3, available * 125e3, f64::from(buffer), 0.0, again * 1e3];
            for (read, written) in read.iter().zip(written) {
                prop_assert!((read - written).abs() <= 1.0, "{} {}", read, written);
            }
            prop_assert_eq!(read.len(), written.len());
        }
    }
}
