//! `fairwind serve` and `fairwind get` under TLS, as operator and user meet them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use fairwind_ftp::server::hash_password;
use fairwind_ftp::tls::Fingerprint;
use fairwind_testing::root;
use rustix::process::Signal;

use crate::serve::{NOBODY, Service, fairwind};

/// A certificate for localhost that has signed itself, as programs that renew certificates keep them: in an archive,
/// with links that lead to the newest. Only their owner may read the key.
fn renew(folder: &Path, number: usize) -> Fingerprint {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for directory in ["archive", "live"] {
        fs::create_dir_all(folder.join(directory)).unwrap();
    }
    for (name, text) in [
        ("cert", made.cert.pem()),
        ("key", made.signing_key.serialize_pem()),
    ] {
        let kept = folder.join(format!("archive/{name}{number}.pem"));
        fs::write(&kept, text).unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o600)).unwrap();
        let link = folder.join(format!("live/{name}.pem"));
        let _ = fs::remove_file(&link);
        symlink(format!("../archive/{name}{number}.pem"), link).unwrap();
    }
    Fingerprint::of(made.cert.der())
}

fn get(url: &str, target: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .args(["get", url, target.to_str().unwrap(), "--retries", "0"])
        .args(options)
        .env("FAIRWIND_FTP_PASSWORD", "secret")
        .output()
        .unwrap()
}

/// What `fairwind ftp` does with these lines, in `here`.
fn in_shell(url: &str, options: &[&str], lines: &str, here: &Path) -> Output {
    let script = here.join("lines");
    fs::write(&script, lines).unwrap();
    Command::new(env!("CARGO_BIN_EXE_fairwind"))
        .args(["ftp", url])
        .args(options)
        .env("FAIRWIND_FTP_PASSWORD", "secret")
        .env("XDG_CONFIG_HOME", here.join("config"))
        .env("XDG_STATE_HOME", here.join("state"))
        .current_dir(here)
        .stdin(fs::File::open(script).unwrap())
        .output()
        .unwrap()
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_certificate_protects_logins_and_files_and_a_renewed_one_is_taken_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let first = renew(folder.path(), 1);
    let dir = folder.path().join("served");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("x"), "content").unwrap();
    if root().is_ok() {
        chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let live = |name: &str| folder.path().join("live").join(name);
    let (certificate, key) = (live("cert.pem"), live("key.pem"));
    let mut command = fairwind(&[dir.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    command
        .args([
            "--user",
            "alice",
            "--tls-required",
            "--tls-listen",
            "127.0.0.1:0",
        ])
        .args(["--tls-certificate".as_ref(), certificate.as_os_str()])
        .args(["--tls-key".as_ref(), key.as_os_str()])
        // On a terminal SIGHUP would end it.
        .stdin(Stdio::null());
    let service = Service::by(&mut command);
    let port = |url: &str| {
        url.trim_end_matches('/')
            .rsplit(':')
            .next()
            .unwrap()
            .to_owned()
    };
    let explicit = format!("ftpes://alice@localhost:{}/x", port(&service.url));
    let wait = Duration::from_secs(30);
    let implicit = loop {
        let line = service.log.recv_timeout(wait).unwrap();
        if let Some(url) = line.strip_prefix("serving ") {
            break format!("ftps://alice@localhost:{}/x", port(url));
        }
    };
    let plain = explicit.replace("ftpes", "ftp");
    let target = folder.path().join("got");
    let known = first.to_string();
    for url in [&explicit, &implicit] {
        let got = get(url, &target, &["--tls-fingerprint", &known]);
        assert!(
            got.status.success(),
            "{}",
            String::from_utf8_lossy(&got.stderr)
        );
        assert_eq!(fs::read(&target).unwrap(), b"content");
        fs::remove_file(&target).unwrap();
    }
    // Each command of the shell has its options.
    let shell = plain.trim_end_matches('x');
    let said = in_shell(
        shell,
        &["--tls", "required", "--tls-fingerprint", &known],
        "ls\nget x\n",
        folder.path(),
    );
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    assert_eq!(fs::read(folder.path().join("x")).unwrap(), b"content");
    let error = complaint(&get(&explicit, &target, &[]));
    assert!(error.contains("from no known authority"), "{error}");
    let error = complaint(&get(&plain, &target, &[]));
    assert!(error.contains("TLS is required"), "{error}");
    let error = complaint(&get(&plain, &target, &["--tls", "offered"]));
    assert!(error.contains("from no known authority"), "{error}");
    let second = renew(folder.path(), 2).to_string();
    service.signal(Signal::HUP);
    service.tells("the configuration was read again");
    let error = complaint(&get(&explicit, &target, &["--tls-fingerprint", &known]));
    assert!(error.contains("another fingerprint"), "{error}");
    let got = get(&explicit, &target, &["--tls-fingerprint", &second]);
    assert!(
        got.status.success(),
        "{}",
        String::from_utf8_lossy(&got.stderr)
    );
    // What cannot be used changes nothing.
    fs::write(folder.path().join("archive/key2.pem"), "no key").unwrap();
    service.signal(Signal::HUP);
    service.tells("key.pem: there is no private key");
    let got = get(&explicit, &target, &["--tls-fingerprint", &second]);
    assert!(got.status.success());
}

#[test]
fn what_tls_lacks_is_said_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    renew(folder.path(), 1);
    let dir = folder.path().to_str().unwrap();
    let serve = |options: &[&str]| {
        let output = fairwind(&[dir, "--listen", "127.0.0.1:0"])
            .args(options)
            .output();
        let output = output.unwrap();
        (output.status.code(), complaint(&output))
    };
    for option in [&["--tls-required"][..], &["--tls-listen", "127.0.0.1:0"]] {
        let (code, error) = serve(option);
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains("--tls-certificate, --tls-key"), "{error}");
    }
    let (code, error) = serve(&["--tls-certificate", "/nonexistent/cert.pem"]);
    assert_eq!(code, Some(2), "{error}");
    let key = folder.path().join("live/key.pem");
    let key = key.to_str().unwrap();
    let (code, error) = serve(&["--tls-certificate", key, "--tls-key", key]);
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("key.pem: there is no certificate"),
        "{error}"
    );
    let error = complaint(&get(
        "ftps://localhost/x",
        folder.path(),
        &["--tls-fingerprint", "00"],
    ));
    assert!(error.contains("64 hexadecimal digits"), "{error}");
    let missing = ["--tls-ca", "/nonexistent/ca.pem"];
    let error = complaint(&get(
        "ftp://localhost/x",
        folder.path(),
        &["--tls-insecure", missing[0], missing[1]],
    ));
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn the_page_on_a_public_server_has_a_configuration_that_serves() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let fingerprint = renew(folder.path(), 1).to_string();
    let dir = folder.path().join("served");
    for name in ["pub", "incoming", "alice"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    fs::write(dir.join("alice/x"), "content").unwrap();
    if root().is_ok() {
        chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    fs::write(folder.path().join("banner"), "Hello\n").unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/public-ftp-server.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let mut text = rest.split_once("```").unwrap().0.to_owned();
    let here = folder.path().to_str().unwrap();
    let secret = hash_password("secret").unwrap();
    for (there, here) in [
        (
            "/etc/fairwind/fullchain.pem",
            format!("{here}/live/cert.pem"),
        ),
        ("/etc/fairwind/privkey.pem", format!("{here}/live/key.pem")),
        ("/etc/fairwind/", format!("{here}/")),
        ("/var/log/fairwind/", format!("{here}/")),
        ("/run/fairwind/", format!("{here}/")),
        ("[::]:21", "127.0.0.1:0".to_owned()),
        ("[::]:990", "127.0.0.1:0".to_owned()),
        ("127.0.0.1:9121", "127.0.0.1:0".to_owned()),
        ("passive_ports = [50000, 50100]\n", String::new()),
        ("$argon2id$v=19$...", secret),
    ] {
        assert!(text.contains(there), "{there} is not in\n{text}");
        text = text.replace(there, &here);
    }
    let file = folder.path().join("ftp.toml");
    fs::write(&file, text).unwrap();
    let configured = [dir.to_str().unwrap(), "--config", file.to_str().unwrap()];
    let checked = fairwind(&configured).arg("--check").output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let service = Service::by(fairwind(&configured).stdin(Stdio::null()));
    let port = service
        .url
        .trim_end_matches('/')
        .rsplit(':')
        .next()
        .unwrap();
    let target = folder.path().join("got");
    let url = format!("ftpes://alice@localhost:{port}/x");
    let got = get(&url, &target, &["--tls-fingerprint", &fingerprint]);
    assert!(
        got.status.success(),
        "{}",
        String::from_utf8_lossy(&got.stderr)
    );
    assert_eq!(fs::read(&target).unwrap(), b"content");
    let error = complaint(&get(&url.replace("ftpes", "ftp"), &target, &[]));
    assert!(error.contains("TLS is required"), "{error}");
    // The log has all of the session, AUTH too.
    let log = fs::read_to_string(folder.path().join("ftp.json")).unwrap();
    assert!(log.contains("\"AUTH TLS\""), "{log}");
}
