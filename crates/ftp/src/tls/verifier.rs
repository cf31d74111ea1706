//! Whom a certificate shows, by rules of our own, in place of those of the library. That the peer has the certificate's
//! key is checked in any case.

use std::fmt::Debug;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Who is known.
pub(super) trait Judge: Debug + Send + Sync {
    /// Whether this certificate, or raw public key, is that of somebody known.
    ///
    /// # Errors
    /// If it is not.
    fn judge(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error>;

    /// Whether raw public keys (RFC 7250) stand in the place of certificates.
    fn is_raw(&self) -> bool {
        false
    }

    /// Whether a client has to show something.
    fn is_mandatory(&self) -> bool {
        true
    }
}

/// Asks the judge, and checks signatures; in both parts of TLS.
#[derive(Debug)]
pub(super) struct Verifier<J> {
    judge: J,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<J: Judge> Verifier<J> {
    pub(super) fn new(judge: J, provider: &CryptoProvider) -> Self {
        Self {
            judge,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn signed(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.judge.is_raw() {
            let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
            return verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms);
        }
        verify_tls13_signature(message, shown, signed, &self.algorithms)
    }
}

/// What both traits ask in the same words.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            shown: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls12_signature(message, shown, signed, &self.algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            shown: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.signed(message, shown, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }

        fn requires_raw_public_keys(&self) -> bool {
            self.judge.is_raw()
        }
    };
}

impl<J: Judge> ServerCertVerifier for Verifier<J> {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(shown, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    signatures!();
}

impl<J: Judge> ClientCertVerifier for Verifier<J> {
    fn client_auth_mandatory(&self) -> bool {
        self.judge.is_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge.judge(shown, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    signatures!();
}
