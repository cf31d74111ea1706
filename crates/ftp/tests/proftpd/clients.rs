//! The module beside clients of other projects, and with TLS.

use std::process::{Command, Output};

use fairwind_testing::{Proftpd, ProftpdFolder, or_skip};

use super::{NEVER, by, json, noise, other_control};
use fairwind_testing::advisor::TestAdvisor;

/// A certificate of the server, valid for nobody but these tests.
fn certificate(folder: &ProftpdFolder) -> Option<String> {
    let (key, certificate) = (folder.path("key.pem"), folder.path("certificate.pem"));
    let mut command = Command::new("openssl");
    command.args(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=127.0.0.1"
            .split(' '),
    );
    command
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate);
    let made = command
        .output()
        .map_err(|error| format!("openssl: {error}"));
    let made = or_skip(made)?;
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    Some(format!(
        "LoadModule mod_tls.c\nTLSEngine on\nTLSRSACertificateFile none\nTLSECCertificateFile {}\n\
         TLSECCertificateKeyFile {}\nTLSOptions NoSessionReuseRequired\n",
        certificate.display(),
        key.display()
    )
    .replace("TLSRSACertificateFile none\n", ""))
}

fn curl(server: &Proftpd, name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--insecure",
        "--user",
        "alice:secret",
    ]);
    command.args(arguments);
    command.arg(format!("ftp://{}/{name}", server.address));
    command.output().unwrap()
}

#[track_caller]
fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// The control is set on the connection that TLS then protects.
#[test]
fn downloads_and_uploads_of_curl_are_advised_with_tls_and_without() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let Some(tls) = certificate(&folder) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(other_control()), NEVER)]);
    let server = super::asking(&folder, &advisor.url(), &tls);
    let bytes = noise(3_000_000);
    folder.serve("x", &bytes);
    let got = folder.path("got");
    let output = ["--output", got.to_str().unwrap()];
    for options in [&[][..], &["--ssl-reqd"]] {
        succeeded(&curl(&server, "x", &[options, &output].concat()));
        assert!(std::fs::read(&got).unwrap() == bytes);
        succeeded(&curl(
            &server,
            "y",
            &[options, &["--upload-file", got.to_str().unwrap()]].concat(),
        ));
        assert!(std::fs::read(folder.path("there/y")).unwrap() == bytes);
    }
    let log = folder.text("fairwind.log");
    let line = format!(" -> {}: because the test says so\n", other_control());
    assert_eq!(log.matches(&line).count(), 2, "{log}");
}

/// One session, whose data connections are plain, protected, and plain again: each time somebody else hears of
/// their opening.
#[test]
fn protection_that_comes_and_goes_in_a_session_leaves_each_transfer_advised() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let Some(tls) = certificate(&folder) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(other_control()), NEVER)]);
    let server = super::asking(&folder, &advisor.url(), &tls);
    folder.serve("x", &noise(3_000_000));
    let script = r#"
import ftplib, hashlib, ssl, sys
context = ssl._create_unverified_context()
ftp = ftplib.FTP_TLS(context=context)
ftp.connect("127.0.0.1", int(sys.argv[1]), timeout=20)
ftp.login("alice", "secret")
for passive in (True, False):
    ftp.set_pasv(passive)
    for protect in (ftp.prot_c, ftp.prot_p, ftp.prot_c, ftp.prot_p):
        protect()
        got = []
        ftp.retrbinary("RETR x", got.append)
        ftp.retrlines("LIST", lambda line: None)
        print(hashlib.sha256(b"".join(got)).hexdigest())
ftp.quit()
"#;
    let mut command = Command::new("/usr/bin/python3");
    let output = command
        .args(["-c", script, &server.address.port().to_string()])
        .output()
        .unwrap();
    succeeded(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    let sums: std::collections::BTreeSet<&str> = text.lines().collect();
    assert_eq!((text.lines().count(), sums.len()), (8, 1), "{text}");
    let log = folder.text("fairwind.log");
    let line = format!(" -> {}: because the test says so\n", other_control());
    assert_eq!(log.matches(&line).count(), 8, "{log}");
}

/// Whoever breaks off leaves nothing behind that the session's next transfer meets.
#[test]
fn transfers_that_are_broken_off_leave_the_session_as_it_was() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(other_control()), 1.0)]);
    let server = super::asking(&folder, &advisor.url(), "");
    let bytes = noise(super::LARGE);
    folder.serve("x", &bytes);
    let mut client = super::alice(server.address);
    for _ in 0..3 {
        let data = super::passive(&mut client);
        drop(data);
        assert!([426, 451].contains(&client.reply().code));
        client.expect("RETR no-such", 550);
        // A directory listing is no transfer that is advised.
        super::fetch(&mut client, "LIST");
    }
    assert!(super::fetch(&mut client, "RETR x") == bytes);
    client.expect("NOOP", 200);
}
