//! Clients of other projects under TLS, all of which resume the session on data connections.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Server;
use crate::common::noise;
use crate::peers::{have, run};

fn server() -> Server {
    Server::with(|tls| {
        tls.required = true;
        tls.listen = Some("127.0.0.1:0".parse().unwrap());
    })
}

#[test]
fn curl_moves_files_under_both_versions_explicitly_and_implicitly() {
    if !have("curl") {
        return;
    }
    let server = server();
    let here = tempfile::tempdir().unwrap();
    let content = noise(3_000_000);
    server.running.write("x", &content);
    fs::write(here.path().join("y"), &content).unwrap();
    let ca = server.authority.ca_file();
    let explicit = format!("ftp://127.0.0.1:{}", server.running.address.port());
    let implicit = format!(
        "ftps://127.0.0.1:{}",
        server.running.tls_address.unwrap().port()
    );
    for (url, version) in [
        (&explicit, "1.2"),
        (&explicit, "1.3"),
        (&implicit, "1.2"),
        (&implicit, "1.3"),
    ] {
        let curl = |arguments: &[&str]| {
            let mut command = Command::new("curl");
            command
                .current_dir(here.path())
                .args([
                    "--silent",
                    "--show-error",
                    "--max-time",
                    "30",
                    "--ssl-reqd",
                    "--user",
                ])
                .args(["alice:secret", "--tls-max", version, "--cacert"])
                .arg(&ca);
            run(command.args(arguments)).stdout
        };
        assert!(curl(&[&format!("{url}/x")]) == content, "{url} {version}");
        let to = format!("{url}/y");
        curl(&["--upload-file", "y", &to, "--upload-file", "y", &to]);
        assert!(server.running.read("y") == content, "{url} {version}");
        // One session for several data connections. Not active: curl 7.88 waits in vain for its own connection there.
        let both = curl(&[&format!("{url}/x"), &format!("{url}/y")]);
        assert!(both == [&content[..], &content[..]].concat());
        let listed = String::from_utf8(curl(&["--list-only", &format!("{url}/")])).unwrap();
        assert_eq!(listed, "x\r\ny\r\n".replace('\r', ""), "{url} {version}");
        fs::remove_file(server.running.path("y")).unwrap();
    }
    let mut newest = Command::new("curl");
    newest
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "--ssl-reqd",
            "--tlsv1.3",
        ])
        .args([
            "--user",
            "alice:secret",
            &format!("{explicit}/x"),
            "--cacert",
        ]);
    assert!(run(newest.arg(&ca)).stdout == content);
}

fn lftp(server: &Server, dir: &Path, commands: &str) {
    let settings = format!(
        "set net:timeout 20; set net:max-retries 1; set cmd:fail-exit yes; set xfer:log no; \
         set ftp:ssl-force yes; set ftp:ssl-protect-data yes; set ssl:ca-file {}",
        server.authority.ca_file().display()
    );
    let open = format!(
        "open -u alice,secret ftp://localhost:{}",
        server.running.address.port()
    );
    let mut command = Command::new("lftp");
    command
        .current_dir(dir)
        .env("HOME", dir)
        .env("LC_ALL", "C.UTF-8")
        .args(["--norc", "-c"]);
    run(command.arg(format!("{settings}; {open}; {commands}; bye")));
}

#[test]
fn lftp_mirrors_and_resumes() {
    if !have("lftp") {
        return;
    }
    let server = server();
    let here = tempfile::tempdir().unwrap();
    let content = noise(1_500_000);
    fs::create_dir_all(here.path().join("up/sub")).unwrap();
    fs::write(here.path().join("up/a b"), &content).unwrap();
    fs::write(here.path().join("up/sub/ü"), "umlaut").unwrap();
    lftp(&server, here.path(), "mirror --reverse up copy");
    assert!(server.running.read("copy/a b") == content);
    assert_eq!(server.running.read("copy/sub/ü"), b"umlaut");
    lftp(&server, here.path(), "mirror --parallel=2 copy down");
    assert!(fs::read(here.path().join("down/a b")).unwrap() == content);
    fs::write(here.path().join("g"), &content[..300_000]).unwrap();
    lftp(&server, here.path(), "get -c 'copy/a b' -o g");
    assert!(fs::read(here.path().join("g")).unwrap() == content);
    lftp(&server, here.path(), "pget -n 3 'copy/a b' -o p");
    assert!(fs::read(here.path().join("p")).unwrap() == content);
}

#[test]
fn ftplib_moves_files_if_it_is_taught_to_resume() {
    if !have("python3") {
        return;
    }
    let server = server();
    server.running.write("x", noise(700_000));
    let script = r#"
import ftplib, io, ssl, sys
class Client(ftplib.FTP_TLS):
    session = True
    def ntransfercmd(self, cmd, rest=None):
        conn, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        if self._prot_p:
            session = self.sock.session if self.session else None
            conn = self.context.wrap_socket(conn, server_hostname=self.host, session=session)
        return conn, size
port, ca = int(sys.argv[1]), sys.argv[2]
for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
    context = ssl.create_default_context(cafile=ca)
    # The default since Python 3.13.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.maximum_version = version
    ftp = Client(context=context, timeout=20)
    ftp.connect("localhost", port)
    ftp.login("alice", "secret")
    try:
        ftp.retrbinary("RETR x", print)
        raise SystemExit("x came in clear")
    except ftplib.error_perm as error:
        assert str(error).startswith("521"), error
    ftp.prot_p()
    first = io.BytesIO()
    ftp.retrbinary("RETR x", first.write)
    assert len(first.getvalue()) == 700_000
    for number in range(4):
        ftp.storbinary("STOR y", io.BytesIO(first.getvalue()))
    ftp.set_pasv(False)
    second = io.BytesIO()
    ftp.retrbinary("RETR y", second.write, rest=1000)
    assert second.getvalue() == first.getvalue()[1000:]
    assert ftp.nlst() == ["x", "y"], ftp.nlst()
    ftp.session = False
    try:
        ftp.nlst()
        raise SystemExit("a session need not be resumed")
    except ftplib.error_perm as error:
        assert str(error).startswith("522"), error
    ftp.quit()
"#;
    let mut command = Command::new("python3");
    command
        .args(["-c", script, &server.running.address.port().to_string()])
        .arg(server.authority.ca_file());
    run(&mut command);
}

/// Python's own class, which begins a TLS session of its own on every data connection.
#[test]
fn ftplib_as_it_is_moves_files_where_resumption_is_not_demanded_and_is_told_so_where_it_is() {
    if !have("python3") {
        return;
    }
    let script = r#"
import concurrent.futures, ftplib, io, ssl, sys
# Python 3.13 may take what is left of one connection's error for one of the next connection that the same thread reads from.
def in_another_thread(act):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(act).result()
port, ca, demanded = int(sys.argv[1]), sys.argv[2], sys.argv[3] == "true"
for version in [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]:
    context = ssl.create_default_context(cafile=ca)
    # The default since Python 3.13.
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.minimum_version = context.maximum_version = version
    ftp = ftplib.FTP_TLS(context=context, timeout=20)
    ftp.connect("localhost", port)
    ftp.login("alice", "secret")
    ftp.prot_p()
    assert ftp.sock.version() == version.name.replace("_", ".", 1).replace("_", "."), ftp.sock.version()
    def get(**how):
        got = io.BytesIO()
        ftp.retrbinary("RETR x", got.write, **how)
        return got.getvalue()
    if demanded:
        lines = []
        for refused in [
            get,
            lambda: ftp.storbinary("STOR y", io.BytesIO(b"y")),
            ftp.nlst,
            lambda: ftp.retrlines("LIST", lines.append),
            lambda: list(ftp.mlsd()),
        ]:
            try:
                try:
                    in_another_thread(refused)
                except OSError:
                    # Of the data connection; the server says why.
                    ftp.voidresp()
                raise SystemExit("a session need not be resumed")
            except ftplib.error_perm as error:
                assert str(error).startswith("522"), error
                assert "must resume" in str(error), error
        assert not lines
        ftp.quit()
        continue
    for passive in [True, False]:
        ftp.set_pasv(passive)
        content = get()
        assert len(content) == 700_000
        assert get(rest=1000) == content[1000:]
        for _ in range(3):
            ftp.storbinary("STOR y", io.BytesIO(content))
            assert ftp.size("y") == 700_000
        ftp.storbinary("APPE y", io.BytesIO(b"more"))
        ftp.rename("y", "x")
        assert get() == content + b"more"
        ftp.storbinary("STOR x", io.BytesIO(content))
        assert ftp.nlst() == ["x"], ftp.nlst()
        lines = []
        ftp.retrlines("LIST", lines.append)
        assert len(lines) == 1 and lines[0].endswith(" x"), lines
        names = [name for name, facts in ftp.mlsd() if facts["type"] == "file"]
        assert names == ["x"], names
    ftp.quit()
"#;
    let content = noise(700_000);
    for demanded in [false, true] {
        let server = Server::with(|tls| tls.resumption = demanded);
        server.running.write("x", &content);
        let port = server.running.address.port().to_string();
        let mut command = Command::new("python3");
        command
            .args(["-c", script, &port])
            .arg(server.authority.ca_file());
        run(command.arg(demanded.to_string()));
        assert!(server.running.read("x") == content);
        assert!(!server.running.path("y").exists());
    }
}

#[test]
fn rclone_copies_and_syncs() {
    if !have("rclone") {
        return;
    }
    let server = server();
    let here = tempfile::tempdir().unwrap();
    let ca = server.authority.ca_file();
    let rclone = |arguments: &[&str]| {
        let mut command = Command::new("rclone");
        command
            .current_dir(here.path())
            .env("HOME", here.path())
            // Not all versions heed --ca-cert here.
            .env("SSL_CERT_FILE", &ca)
            .arg("--retries=1");
        run(command.args(arguments)).stdout
    };
    let password = String::from_utf8(rclone(&["obscure", "secret"])).unwrap();
    let remote = |port: u16, how: &str, path: &str| {
        format!(
            ":ftp,host=localhost,port={port},user=alice,pass={},{how}=true:{path}",
            password.trim()
        )
    };
    let content = noise(1_500_000);
    fs::create_dir_all(here.path().join("up")).unwrap();
    fs::write(here.path().join("up/a b"), &content).unwrap();
    let (explicit, implicit) = (
        server.running.address.port(),
        server.running.tls_address.unwrap().port(),
    );
    for (port, how) in [(explicit, "explicit_tls"), (implicit, "tls")] {
        let there = remote(port, how, how);
        rclone(&["copy", "up", &there]);
        assert!(server.running.read(&format!("{how}/a b")) == content);
        rclone(&["check", "--download", "up", &there]);
    }
}
