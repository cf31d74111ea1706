//! Right-sizing with a peer that has none: where the kernel's own size is too small for the path, the sender grows its buffer.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output};

use super::err;
use crate::turn::in_the_lab;

/// The send buffers of a host end at 256 KiB, which is a tenth of what the path holds.
const SMALL: &str = "echo 4096 16384 262144 > /proc/sys/net/ipv4/tcp_wmem";

/// 16 MB for `command`, which a shell runs with the program as `$0` and the folder as `$1`, from a server that a shell
/// starts with `server`. Reno's slow start, unlike that of CUBIC, does not end when packets are late.
fn run(folder: &Path, server: &str, command: &str) -> Output {
    let fairwind = env!("CARGO_BIN_EXE_fairwind");
    fs::create_dir(folder.join("served")).unwrap();
    let file = File::create(folder.join("served/x")).unwrap();
    file.set_len(16_000_000).unwrap();
    let script = folder.join("serve.sh");
    fs::write(&script, server).unwrap();
    let server = format!("sh {} {fairwind} {}", script.display(), folder.display());
    let output = Command::new(fairwind)
        .args(["lab", "exec", "--bandwidth", "200Mbit/s", "--delay", "25ms"])
        .args(["--queue", "1250kB", "--congestion-control", "reno"])
        .args(["--server", &server, "--", "sh", "-c", command, fairwind])
        .arg(folder)
        .env("FAIRWIND_FTP_PASSWORD", "secret")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", err(&output));
    output
}

/// What the server says about sizes when curl downloads the file.
fn said_by_the_server(options: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let server = format!(
        r#"{SMALL}
           export RUST_LOG=info,fairwind_transfer=debug
           exec "$1" serve "$2/served" --listen 0.0.0.0:21 --run-as root {options} 2> "$2/log""#
    );
    let get = r#"curl --silent --show-error --output "$1/got" ftp://$FAIRWIND_PEER/x"#;
    run(folder.path(), &server, get);
    let got = fs::metadata(folder.path().join("got")).unwrap();
    assert_eq!(got.len(), 16_000_000);
    fs::read_to_string(folder.path().join("log")).unwrap()
}

#[test]
fn a_server_grows_the_buffer_of_a_download() {
    let Some(_turn) = in_the_lab() else { return };
    let log = said_by_the_server("");
    assert!(
        log.contains("bytes were in flight, all that the buffer held"),
        "{log}"
    );
    let log = said_by_the_server("--no-drs");
    assert!(!log.contains("right-sizing"), "{log}");
}

#[test]
fn a_client_grows_the_buffer_of_an_upload() {
    let Some(_turn) = in_the_lab() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server =
        r#"exec "$1" serve "$2/served" --listen 0.0.0.0:21 --run-as root --user alice --no-drs"#;
    let put = format!(
        r#"{SMALL} && "$0" put "$1/served/x" ftp://alice@$FAIRWIND_PEER/y --checksum off --json"#
    );
    let output = run(folder.path(), server, &put);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let changes = report["transfers"][0]["changes"].as_array().unwrap();
    assert_eq!(changes[0]["what"], "send buffer");
    let sizes = changes.iter().map(|change| change["to"].as_str().unwrap());
    let sizes: Vec<u64> = sizes.map(|size| size.parse().unwrap()).collect();
    assert!(sizes.is_sorted(), "{sizes:?}");
    assert!(*sizes.last().unwrap() >= 512 << 10, "{sizes:?}");
}
