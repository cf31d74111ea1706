//! Downloads that the kernel encrypts where it can, and the server where it cannot: clients see no difference.
//!
//! `scripts/try-kernel-tls` runs these tests on kernels that can.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_kernel::tls::{Cipher, Version, is_offered, offers};
use rustls::crypto::ring::{self, cipher_suite};
use rustls::{ClientConfig, SupportedCipherSuite};

use super::{Secure, Server};
use crate::common::noise;

const SUITES: [(SupportedCipherSuite, Version, Cipher); 6] = [
    (
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        Version::Tls13,
        Cipher::Aes128Gcm,
    ),
    (
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        Version::Tls13,
        Cipher::Aes256Gcm,
    ),
    (
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
        Version::Tls13,
        Cipher::ChaCha20Poly1305,
    ),
    (
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        Version::Tls12,
        Cipher::Aes128Gcm,
    ),
    (
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        Version::Tls12,
        Cipher::Aes256Gcm,
    ),
    (
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        Version::Tls12,
        Cipher::ChaCha20Poly1305,
    ),
];

/// A client that speaks this suite only.
fn speaking(server: &Server, suite: SupportedCipherSuite) -> Arc<ClientConfig> {
    let mut provider = ring::default_provider();
    provider.cipher_suites = vec![suite];
    server.authority.client_by(provider, &[suite.version()])
}

/// Connections whose sending the kernel has taken over, in this network namespace so far (`TlsTxSw`).
fn taken_over() -> u64 {
    let counters = std::fs::read_to_string("/proc/net/tls_stat").unwrap_or_default();
    let line = counters
        .lines()
        .find_map(|line| line.strip_prefix("TlsTxSw"));
    line.map_or(0, |number| number.trim().parse().unwrap())
}

#[test]
fn downloads_are_the_same_whoever_encrypts_them() {
    let content = noise(3_000_001);
    for kernel in [true, false] {
        let server = Server::with(|tls| tls.kernel = kernel);
        server.running.write("x", &content);
        server.running.write("empty", "");
        for (suite, version, cipher) in SUITES {
            let mut client = Secure::alice_as(&server, speaking(&server, suite));
            let before = taken_over();
            assert!(client.fetch("RETR x") == content, "{suite:?}");
            client.expect("REST 2999999", 350);
            assert!(client.fetch("RETR x") == content[2_999_999..], "{suite:?}");
            assert!(client.fetch("RETR empty").is_empty(), "{suite:?}");
            assert_eq!(client.fetch("NLST"), b"empty\r\nx\r\n", "{suite:?}");
            client.expect("TYPE A", 200);
            client.fetch("RETR empty");
            let kernels = taken_over() - before;
            // Other tests run beside this one.
            if kernel && is_offered(version, cipher) {
                assert!(kernels >= 3, "{suite:?}: {kernels}");
            }
        }
    }
    println!("the kernel encrypts with {:?}", offers());
}

/// More than the socket holds: records that are encrypted already wait for room when the file has been read, and when
/// the connection is to be closed.
#[test]
fn nothing_is_cut_off_for_who_reads_slowly() {
    let server = Server::start();
    let content = noise(6_000_000);
    server.running.write("x", &content);
    for (suite, ..) in SUITES {
        let mut client = Secure::alice_as(&server, speaking(&server, suite));
        let mut data = client.protected();
        client.expect("RETR x", 150);
        let mut got: Vec<u8> = Vec::new();
        let mut pause = 0;
        loop {
            let mut buffer = [0; 16_384];
            // Fails without TLS's closing message.
            let count = data.read(&mut buffer).unwrap();
            if count == 0 {
                break;
            }
            got.extend(&buffer[..count]);
            pause += count;
            if pause > 500_000 {
                std::thread::sleep(Duration::from_millis(30));
                pause = 0;
            }
        }
        assert!(got == content, "{suite:?}: {} bytes", got.len());
        assert_eq!(client.reply().code, 226, "{suite:?}");
    }
}

#[test]
fn a_limit_of_the_rate_holds_whoever_encrypts() {
    let server = Server::configured(|config| config.limits.rate = 400_000);
    server.running.write("x", noise(400_000));
    let mut client = Secure::alice(&server);
    let begin = Instant::now();
    assert_eq!(client.fetch("RETR x").len(), 400_000);
    assert!(begin.elapsed() >= Duration::from_millis(800));
}

#[test]
fn a_client_that_leaves_in_the_middle_is_noticed() {
    let server = Server::start();
    server.running.write("x", noise(20_000_000));
    for (suite, ..) in SUITES {
        let mut client = Secure::alice_as(&server, speaking(&server, suite));
        let mut data = client.protected();
        client.expect("RETR x", 150);
        data.read_exact(&mut [0; 1_000]).unwrap();
        drop(data);
        assert_eq!(client.reply().code, 426, "{suite:?}");
        client.expect("NOOP", 200);
    }
}
