//! Data connections that somebody else answers: the control connection has the right certificate, they have another one.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use fairwind_ftp::client::{ClientError, Connection, Options, Storage};
use fairwind_ftp::tls::TlsSettings;
use rustls::{ServerConfig, SupportedProtocolVersion, version};

use super::Authority;
use super::authority::Issued;
use super::ours::{Script, Scripted, alice, fetch, options, place, serving_under, trusting};
use crate::common::{eventually, noise};

type Versions = [&'static SupportedProtocolVersion];

/// A server whose control connection has the first certificate, and whose data connections resume nothing of it.
struct TwoFaces<'a> {
    control: &'a Issued,
    versions: &'a Versions,
    content: &'a [u8],
}

impl TwoFaces<'_> {
    fn tls(&self, issued: &Issued) -> Option<Arc<ServerConfig>> {
        Some(Arc::new(serving_under(issued, self.versions)))
    }

    fn start(&self, data: &Issued, cuts: &[usize]) -> Scripted {
        self.serve(data, cuts, true)
    }

    /// Without the sizes of files, which would be those of what is to be stored, too.
    fn start_empty(&self, data: &Issued) -> Scripted {
        self.serve(data, &[], false)
    }

    fn serve(&self, data: &Issued, cuts: &[usize], sized: bool) -> Scripted {
        Scripted::start(Script {
            tls: self.tls(self.control),
            data_tls: self.tls(data),
            content: self.content.to_vec(),
            cuts: cuts.to_vec(),
            sized,
            ..Script::default()
        })
    }
}

fn store(server: &Scripted, source: &Path, options: Options) -> Result<(), ClientError> {
    let storage = Storage {
        source: source.to_owned(),
        remote: b"y".to_vec(),
        present: None,
    };
    let mut connection = Connection::new(place("ftpes", server.address), alice(), options);
    storage.run(&mut connection, 0).map(drop)
}

fn says(error: &ClientError, reason: &str) {
    assert!(!error.is_transient(), "{error}");
    let error = error.to_string();
    assert!(error.contains("data connection with"), "{error}");
    assert!(error.contains(reason), "{error}");
}

#[test]
fn a_data_connection_with_another_certificate_brings_nothing_and_gets_nothing() {
    let authority = Authority::new();
    let control = authority.issue(&["localhost"]);
    let by_fingerprint = || {
        options(TlsSettings {
            fingerprint: Some(control.fingerprint()),
            ..TlsSettings::default()
        })
    };
    let by_authority = || trusting(&authority);
    let known: [&dyn Fn() -> Options; 2] = [&by_authority, &by_fingerprint];
    let cases = [
        (
            authority.issue(&["example.org"]),
            known[0],
            "is for another name",
        ),
        (
            Authority::new().issue(&["localhost"]),
            known[0],
            "from no known authority",
        ),
        (
            Issued::by_itself(&["localhost"]),
            known[0],
            "from no known authority",
        ),
        (
            authority.issue(&["localhost"]),
            known[1],
            "another fingerprint",
        ),
    ];
    let content = noise(100_000);
    for versions in [&[&version::TLS12][..], &[&version::TLS13]] {
        let server = TwoFaces {
            control: &control,
            versions,
            content: &content,
        };
        for (data, trusting, reason) in &cases {
            let here = tempfile::tempdir().unwrap();
            let (target, partial) = (here.path().join("x"), here.path().join(".x.part"));
            let get = |server: &Scripted| {
                let got = fetch(place("ftpes", server.address), trusting(), &target);
                got.map(drop)
            };
            // What has come from the right one before, and what it is to replace, stay as they are.
            fs::write(&target, "old").unwrap();
            let right = server.start(&control, &[30_000, 0, 0, 0]);
            assert!(get(&right).unwrap_err().to_string().contains("cut off"));
            assert!(fs::read(&partial).unwrap() == content[..30_000]);
            let wrong = server.start(data, &[]);
            says(&get(&wrong).unwrap_err(), reason);
            assert!(wrong.has_heard("REST 30000") && wrong.has_heard("RETR x"));
            assert!(fs::read(&partial).unwrap() == content[..30_000]);
            assert_eq!(fs::read(&target).unwrap(), b"old");
            let right = server.start(&control, &[]);
            get(&right).unwrap();
            assert!(right.has_heard("REST 30000"));
            assert!(fs::read(&target).unwrap() == content);

            let wrong = server.start_empty(data);
            says(&store(&wrong, &target, trusting()).unwrap_err(), reason);
            assert!(wrong.has_heard("STOR"));
            eventually("the end of the upload", || wrong.has_heard("0 bytes"));
            assert!(fs::read(&target).unwrap() == content);
            let right = server.start_empty(&control);
            store(&right, &target, trusting()).unwrap();
            assert!(*right.stored.lock().unwrap() == content);
        }
        // It is the certificate that is refused, not that nothing is resumed.
        let another = server.start(&authority.issue(&["localhost"]), &[]);
        let here = tempfile::tempdir().unwrap();
        let target = here.path().join("x");
        fetch(place("ftpes", another.address), by_authority(), &target).unwrap();
        assert!(fs::read(&target).unwrap() == content);
    }
}
