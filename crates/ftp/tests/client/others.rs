//! Third-party servers: vsftpd and pyftpdlib.

use std::fs;
use std::io::Write;
use std::process::Command;

use fairwind_ftp::client::{
    Connection, Credentials, DataMode, Kind, Options, Retrieval, Storage, Verification, third_party,
};
use fairwind_testing::{free_address, install_root, or_skip};

use super::broken::pyftpd;
use super::{connection, get, names, options, place, put};
use crate::common::{Process, noise};

/// vsftpd for anonymous users with full rights below `pub`.
pub(crate) struct Vsftpd {
    pub process: Process,
    pub directory: tempfile::TempDir,
    _configuration: tempfile::NamedTempFile,
}

impl Vsftpd {
    pub(super) fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// With more lines in its configuration.
    pub(crate) fn start_with(more: &str) -> Option<Self> {
        let program = or_skip(install_root("vsftpd"))?.join("usr/sbin/vsftpd");
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("pub")).unwrap();
        let address = free_address();
        let mut configuration = tempfile::NamedTempFile::new().unwrap();
        let text = format!(
            "listen=YES\nlisten_address=127.0.0.1\nlisten_port={}\nbackground=NO\n\
             run_as_launching_user=YES\nftp_username=nobody\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\n\
             anon_root={}\nanon_upload_enable=YES\nanon_mkdir_write_enable=YES\n\
             anon_other_write_enable=YES\nanon_umask=022\nanon_world_readable_only=NO\n\
             port_promiscuous=YES\npasv_promiscuous=YES\nconnect_from_port_20=NO\n\
             secure_chroot_dir={}\nseccomp_sandbox=NO\nallow_writeable_chroot=YES\n{more}",
            address.port(),
            directory.path().display(),
            directory.path().join("pub").display(),
        );
        configuration.write_all(text.as_bytes()).unwrap();
        let mut command = Command::new(program);
        Some(Self {
            process: Process::at(address, command.arg(configuration.path())),
            directory,
            _configuration: configuration,
        })
    }

    fn connection(&self, path: &str, options: Options) -> Connection {
        Connection::new(
            place(self.process.address, path),
            Credentials::anonymous(),
            options,
        )
    }
}

#[test]
fn vsftpd_gives_and_takes_files_and_goes_on_with_them() {
    let Some(server) = Vsftpd::start() else {
        return;
    };
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000);
    let there = server.directory.path().join("pub");
    fs::write(there.join("x"), &bytes).unwrap();
    for mode in [DataMode::Passive, DataMode::Active] {
        let mut connection = server.connection("", Options { mode, ..options() });
        let target = here.path().join("x");
        let retrieval = Retrieval {
            remote: b"pub/x".to_vec(),
            target: target.clone(),
            listed: None,
        };
        let got = retrieval.run(&mut connection, 0).unwrap();
        assert_eq!(fs::read(&target).unwrap(), bytes);
        assert_eq!(got.checksum, Verification::NotOffered);
        // A partial upload that is newer than the file may be resumed.
        fs::write(there.join(".y.part"), &bytes[..1_000_000]).unwrap();
        let storage = Storage {
            source: target,
            remote: b"pub/y".to_vec(),
            present: None,
        };
        let sent = storage.run(&mut connection, 0).unwrap();
        assert_eq!((sent.resumed_at, sent.bytes), (1_000_000, 2_000_000));
        assert_eq!(fs::read(there.join("y")).unwrap(), bytes);
        assert_eq!(names(&there), ["x", "y"]);
    }
    let entries = server
        .connection("", options())
        .with(|session| session.list(b"pub"))
        .unwrap();
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.text(), entry.kind, entry.size))
        .collect();
    assert_eq!(
        told,
        [
            ("x".to_owned(), Kind::File, Some(3_000_000)),
            ("y".to_owned(), Kind::File, Some(3_000_000))
        ]
    );
}

#[test]
fn pyftpdlib_gives_and_takes_files() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bytes = noise(3_000_000);
    fs::write(there.path().join("x"), &bytes).unwrap();
    let Some(server) = pyftpd(there.path(), &[]) else {
        return;
    };
    let target = here.path().join("x");
    for mode in [DataMode::Passive, DataMode::Active] {
        let options = || Options { mode, ..options() };
        get(server.address, "x", &target, options()).unwrap();
        assert_eq!(fs::read(&target).unwrap(), bytes);
        let sent = put(server.address, &target, "y", options()).unwrap();
        assert_eq!(sent.checksum, Verification::NotOffered);
        assert_eq!(fs::read(there.path().join("y")).unwrap(), bytes);
    }
    let entries = connection(server.address, "", options())
        .with(|session| session.list(b""))
        .unwrap();
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| entry.modified.is_some()));
}

#[test]
fn vsftpd_sends_to_vsftpd() {
    let (Some(a), Some(b)) = (Vsftpd::start(), Vsftpd::start()) else {
        return;
    };
    let bytes = noise(2_000_000);
    fs::write(a.directory.path().join("pub/x"), &bytes).unwrap();
    let mut from = a.connection("pub/x", options());
    let mut to = b.connection("pub/y", options());
    let report = third_party(&mut from, &mut to, 0).unwrap();
    assert_eq!(
        (report.bytes, &report.checksum),
        (2_000_000, &Verification::NotOffered)
    );
    assert_eq!(fs::read(b.directory.path().join("pub/y")).unwrap(), bytes);
    assert_eq!(names(&b.directory.path().join("pub")), ["y"]);
}
