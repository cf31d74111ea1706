//! ProFTPD's module under mod_tls: what is advised changes in the middle of protected transfers.

use std::fs;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_testing::advisor::{Reply as Answer, TestAdvisor, advice};
use fairwind_testing::{
    Proftpd, ProftpdFolder, in_new_network_namespace, or_skip, permitted, root, wait_until,
};
use rustls::{ClientConfig, SupportedProtocolVersion, version};
use serde_json::json;

use super::{Authority, Secure};
use crate::common::{Client, TIMEOUT, noise};
use crate::proftpd::{
    LARGE, NEVER, allowed, asking, changes, changing_its_mind, control, follows_three_changes,
    server_end, three,
};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Lines that have data connections protected, or refused.
fn lines(authority: &Authority) -> String {
    let files = authority.server_files();
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "LoadModule mod_tls.c\nTLSEngine on\nTLSRequired on\nTLSECCertificateFile {}\n\
         TLSECCertificateKeyFile {}\n",
        files.certificate.display(),
        files.key.display()
    )
}

fn protected(server: &Proftpd, config: Arc<ClientConfig>) -> Secure {
    let mut plain = Client::connect(server.address);
    plain.expect("AUTH TLS", 234);
    let mut client = Secure::over(plain.stream, config);
    client.expect("PBSZ 0", 200);
    client.expect("PROT P", 200);
    client.login();
    client
}

/// Without sendfile(2), which cannot encrypt.
#[test]
fn a_protected_download_follows_the_advisor_while_it_runs() {
    for version in VERSIONS {
        let Some(folder) = or_skip(ProftpdFolder::new()) else {
            return;
        };
        let authority = Authority::new();
        let advisor = changing_its_mind();
        let server = asking(&folder, &advisor.url(), &lines(&authority));
        let bytes = noise(LARGE);
        folder.serve("x", &bytes);
        let mut client = protected(&server, authority.client(&[version]));
        let data = client.protected();
        client.expect("RETR x", 150);
        follows_three_changes(&folder, &advisor, data, |data| &data.sock, &bytes);
        assert_eq!(client.reply().code, 226);
    }
}

/// The receive buffer of the server's end, as the kernel has it: twice what was set.
fn receive_buffer(data: &TcpStream) -> usize {
    let text = server_end(data);
    let (_, rest) = text.split_once(",rb").unwrap_or_default();
    let digits = rest.split(|sign: char| !sign.is_ascii_digit()).next();
    digits.unwrap().parse().unwrap_or(0)
}

/// A receiver's part of the advice is its buffer: that changes, and the control does not.
#[test]
fn a_protected_upload_follows_the_advisor_while_it_runs() {
    const BUFFER: usize = 150_000;
    if !permitted(root()) {
        return;
    }
    in_new_network_namespace(|| {
        // Autotuning reaches less than what is advised, and that is no more than anybody may set.
        fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 65536 200000").unwrap();
        for version in VERSIONS {
            let Some(folder) = or_skip(ProftpdFolder::new()) else {
                return;
            };
            let advised = |buffer, again| {
                let other = json!(allowed()[1]);
                let changes =
                    json!({ "receive_buffer_bytes": buffer, "congestion_control": other });
                Answer::Advice(advice(again, changes))
            };
            let advisor = TestAdvisor::answering(vec![
                advised(Some(BUFFER), 1.0),
                advised(None, 1.0),
                advised(Some(BUFFER), NEVER),
            ]);
            let authority = Authority::new();
            let text = lines(&authority) + "FairwindMinimumBytes 0\n";
            let server = asking(&folder, &advisor.url(), &text);
            let mut client = protected(&server, authority.client(&[version]));
            let mut data = client.protected();
            client.expect("STOR x", 150);
            wait_until("advised", || receive_buffer(&data.sock) == 2 * BUFFER);
            let part = noise(10_000);
            let mut parts = 0;
            let end = Instant::now() + TIMEOUT;
            let log = || folder.text("fairwind.log");
            while changes(&log(), "receive buffer").len() < 3 {
                assert!(Instant::now() < end, "{}", log());
                data.write_all(&part).unwrap();
                parts += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(receive_buffer(&data.sock), 2 * BUFFER);
            assert_eq!(control(&data.sock), allowed()[0]);
            data.conn.send_close_notify();
            data.flush().unwrap();
            data.sock.shutdown(Shutdown::Write).unwrap();
            drop(data);
            assert_eq!(client.reply().code, 226);
            assert!(fs::read(folder.path("there/x")).unwrap() == part.repeat(parts));
            let log = log();
            let told = changes(&log, "receive buffer");
            assert_eq!(told, three("autotuned", &BUFFER.to_string()), "{log}");
            assert!(!log.contains("congestion control"), "{log}");
        }
    });
}
