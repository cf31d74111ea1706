//! Certificates of an authority that only a test knows.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwind_ftp::server::TlsConfig;
use fairwind_ftp::tls::Fingerprint;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    name: String,
    certificate: String,
    directory: tempfile::TempDir,
    files: AtomicUsize,
}

/// A certificate and its key, PEM.
pub(super) struct Issued {
    pub certificate: String,
    pub key: String,
    /// What a revocation list names it by.
    pub serial: u64,
}

impl Issued {
    /// A certificate for these names that no authority has signed.
    pub(super) fn by_itself(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let signed = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            certificate: signed.cert.pem(),
            key: signed.signing_key.serialize_pem(),
            serial: 1,
        }
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap())
    }
}

/// When a certificate is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    Now,
    Past,
    Future,
}

/// What the certificate of an authority has, without its name. RFC 5280 wants it to tell the uses of its key, and those that
/// it signs to tell whose key that is; Python wants that since 3.13.
fn of_authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Authority {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = of_authority();
        // No two have the same name.
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("authority {number}");
        params.distinguished_name.push(DnType::CommonName, &name);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            name,
            certificate,
            directory: tempfile::tempdir().unwrap(),
            files: AtomicUsize::new(0),
        }
    }

    pub(super) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_at(names, Time::Now)
    }

    pub(super) fn issue_at(&self, names: &[&str], time: Time) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.use_authority_key_identifier_extension = true;
        match time {
            Time::Now => {}
            Time::Past => params.not_after = date_time_ymd(2020, 1, 1),
            Time::Future => params.not_before = date_time_ymd(3020, 1, 1),
        }
        let key = KeyPair::generate().unwrap();
        let serial = self.files.fetch_add(1, Ordering::Relaxed) as u64 + 1;
        params.serial_number = Some(SerialNumber::from(serial));
        Issued {
            serial,
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    fn file(&self, text: &str, kind: &str) -> PathBuf {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.path().join(format!("{kind}-{number}.pem"));
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Files with a certificate and its key.
    pub(super) fn files_of(&self, issued: &Issued) -> (PathBuf, PathBuf) {
        (
            self.file(&issued.certificate, "certificate"),
            self.file(&issued.key, "key"),
        )
    }

    /// TLS for a server at localhost.
    pub(super) fn server_files(&self) -> TlsConfig {
        let (certificate, key) = self.files_of(&self.issue(&["localhost", "127.0.0.1"]));
        TlsConfig::new(certificate, key)
    }

    /// The authority's own certificate.
    pub(super) fn ca_file(&self) -> PathBuf {
        self.file(&self.certificate, "ca")
    }

    /// A revocation list that names these certificates, PEM.
    pub(super) fn revoke(&self, revoked: &[u64], time: Time) -> String {
        let (this_update, next_update) = match time {
            Time::Now => ((2020, 1, 1), (4000, 1, 1)),
            Time::Past => ((2020, 1, 1), (2020, 2, 1)),
            Time::Future => ((3020, 1, 1), (3020, 2, 1)),
        };
        let date = |(year, month, day)| date_time_ymd(year, month, day);
        let entry = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date(this_update),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date(this_update),
            next_update: date(next_update),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// An authority of the same name that has not the same key.
    pub(super) fn with_another_key(&self) -> Self {
        let (mut other, name) = (Self::new(), self.name.clone());
        let mut params = of_authority();
        params.distinguished_name.push(DnType::CommonName, &name);
        other.issuer = Issuer::new(params, KeyPair::generate().unwrap());
        Self { name, ..other }
    }

    /// A file with a list whose signature is cut off.
    pub(super) fn damaged_revocations(&self) -> PathBuf {
        let text = self.revoke(&[], Time::Now);
        let lines: Vec<&str> = text.lines().collect();
        let (last, rest) = lines.split_last().unwrap();
        self.file(&[&rest[..1], &[*last]].concat().join("\n"), "crl")
    }

    /// A file with such a list.
    pub(super) fn revocations(&self, revoked: &[u64], time: Time) -> PathBuf {
        self.file(&self.revoke(revoked, time), "crl")
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        roots.add(certificate).unwrap();
        roots
    }

    /// A client that trusts this authority, speaks these versions and has seen no server yet.
    pub(super) fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        self.client_by(ring::default_provider(), versions)
    }

    /// As [`client`](Self::client), with the ciphers of a provider.
    pub(super) fn client_by(
        &self,
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots())
            .with_no_client_auth();
        Arc::new(named(config))
    }

    /// One that shows a certificate.
    pub(super) fn client_with(&self, own: Issued) -> Arc<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(self.roots())
            .with_client_auth_cert(vec![certificate], key)
            .unwrap();
        Arc::new(named(config))
    }
}

/// The library uses each ticket once: its data connections need tickets, which it reads.
fn named(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"ftp-data".to_vec()];
    config
}
