//! Options of `get`, `put` and `ls` for TLS.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fairwind_ftp::client::{Options, TlsPolicy};
use fairwind_ftp::tls::{ClientTls, Fingerprint, TlsSettings};

use crate::words::{Word, one_of};

/// Whether TLS is used, and whom it trusts.
#[derive(Args)]
pub(crate) struct Tls {
    /// Whether `ftp://` means TLS; `ftps://` and `ftpes://` always do
    #[arg(long, value_name = "WHEN", value_parser = one_of(POLICIES), default_value = "off")]
    tls: TlsPolicy,
    /// Authorities (PEM) that the server's certificate may be from [default: the system's]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Revocation lists (PEM) of the authorities that the server's certificate is from [default: revocation is not
    /// checked]
    #[arg(long, value_name = "FILE")]
    tls_crl: Option<PathBuf>,
    /// The server's certificate is the one with this SHA-256, whoever has signed it
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["tls_ca", "tls_crl", "tls_insecure"])]
    tls_fingerprint: Option<Fingerprint>,
    /// Do not check the server's certificate
    #[arg(long, conflicts_with_all = ["tls_ca", "tls_crl"])]
    tls_insecure: bool,
    /// Certificate (PEM) to show to the server; needs --tls-key
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Private key of --tls-certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

const POLICIES: &[Word<TlsPolicy>] = &[
    ("off", "Use no TLS", TlsPolicy::Off),
    (
        "offered",
        "Use TLS if the server offers it, which whoever is between can prevent",
        TlsPolicy::Offered,
    ),
    (
        "required",
        "Use TLS; a server that offers none is a failure",
        TlsPolicy::Required,
    ),
];

impl Tls {
    /// The same as words of a command line, each with its value.
    pub(super) fn arguments(&self) -> Vec<String> {
        let policy = POLICIES.iter().find(|(_, _, policy)| *policy == self.tls);
        let mut words = vec![format!(
            "--tls={}",
            policy.map_or("off", |(word, _, _)| word)
        )];
        let files = [
            ("ca", &self.tls_ca),
            ("crl", &self.tls_crl),
            ("certificate", &self.tls_certificate),
            ("key", &self.tls_key),
        ];
        for (name, file) in files {
            words.extend(
                file.as_ref()
                    .map(|file| format!("--tls-{name}={}", file.display())),
            );
        }
        let digest = self.tls_fingerprint;
        words.extend(digest.map(|digest| format!("--tls-fingerprint={digest}")));
        words.extend(self.tls_insecure.then(|| "--tls-insecure".to_owned()));
        words
    }

    /// Sets the options that follow from these.
    pub(super) fn apply(&self, options: Options) -> Options {
        let settings = TlsSettings {
            ca: self.tls_ca.clone(),
            crl: self.tls_crl.clone(),
            fingerprint: self.tls_fingerprint,
            insecure: self.tls_insecure,
            certificate: self.tls_certificate.clone().zip(self.tls_key.clone()),
        };
        Options {
            tls_policy: self.tls,
            tls: Arc::new(ClientTls::new(settings)),
            ..options
        }
    }
}
