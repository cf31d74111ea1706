//! ProFTPD, with its checksum module.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairwind_ftp::client::{DataMode, Kind, Verification, third_party};
use fairwind_testing::{free_address, install_root, or_skip, proftpd_modules};

use super::{Options, connection, get, is_verified, names, options, put};
use crate::common::{Process, noise};

/// alice's password `secret` as a crypt(5) hash.
const SECRET: &str = "$6$fairwind$J.Cu/z00AXnowPS2V6vRr6WvX/KBIR40YYFsny4LLsAyEpoPG3/RLOv8q/LmHmG5HIYlDsT0jygFOLOwaySmj1";

pub(crate) struct Proftpd {
    pub process: Process,
    pub there: PathBuf,
    _directory: tempfile::TempDir,
}

impl Proftpd {
    pub(super) fn start() -> Option<Self> {
        let room = or_skip(install_root("proftpd"))?;
        Self::start_with(&proftpd_modules(&room, &["mod_digest"]))
    }

    /// With these lines in its configuration, those that load modules among them.
    pub(crate) fn start_with(lines: &str) -> Option<Self> {
        let room = or_skip(install_root("proftpd"))?;
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("there");
        fs::create_dir(&there).unwrap();
        let address = free_address();
        let mut command = Command::new(room.join("usr/sbin/proftpd"));
        command
            .args(["--nodaemon", "--quiet", "--config"])
            .arg(configured(directory.path(), lines, address.port()));
        Some(Self {
            process: Process::at(address, &mut command),
            there,
            _directory: directory,
        })
    }
}

/// The configuration file: only alice may log in, with the uid and gid of the user who runs the tests.
fn configured(directory: &Path, lines: &str, port: u16) -> PathBuf {
    // SAFETY: these calls have no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    // Not started by root, it stays who it is only if it is told so.
    let (name, of_group) = (own("-un"), own("-gn"));
    let here = directory.display();
    let (users, file) = (directory.join("users"), directory.join("proftpd.conf"));
    fs::write(
        &users,
        format!("alice:{SECRET}:{user}:{group}::{here}/there:/bin/sh\n"),
    )
    .unwrap();
    // It refuses a password file that others may read.
    fs::set_permissions(&users, Permissions::from_mode(0o600)).unwrap();
    let text = format!(
        "ServerType standalone\nUser {name}\nGroup {of_group}\n\
         DefaultAddress 127.0.0.1\nSocketBindTight on\nPort {port}\nUseIPv6 off\n\
         {lines}ControlsEngine off\n<IfModule mod_delay.c>\nDelayEngine off\n</IfModule>\nUseReverseDNS off\n\
         AuthOrder mod_auth_file.c\nAuthPAM off\nAuthUserFile {here}/users\nRootLogin on\nUseFtpUsers off\n\
         RequireValidShell off\nAllowOverwrite on\nAllowStoreRestart on\nAllowForeignAddress on\n\
         WtmpLog off\nUseLastlog off\nTransferLog none\nSystemLog none\nPidFile {here}/pid\n\
         ScoreboardFile {here}/scores\n"
    );
    fs::write(&file, text).unwrap();
    file
}

/// What `id` says of whoever runs the tests.
fn own(option: &str) -> String {
    let output = Command::new("id").arg(option).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn proftpd_gives_and_takes_files_and_their_checksums() {
    let Some(server) = Proftpd::start() else {
        return;
    };
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(3_000_000);
    fs::write(server.there.join("x"), &bytes).unwrap();
    let target = here.path().join("x");
    for mode in [DataMode::Passive, DataMode::Active] {
        let options = || Options { mode, ..options() };
        let got = get(server.process.address, "x", &target, options()).unwrap();
        assert!(is_verified(&got), "{:?}", got.checksum);
        assert!(fs::read(&target).unwrap() == bytes);
        fs::remove_file(&target).unwrap();
        fs::write(here.path().join("y"), &bytes).unwrap();
        let sent = put(
            server.process.address,
            &here.path().join("y"),
            "y",
            options(),
        )
        .unwrap();
        assert!(is_verified(&sent), "{:?}", sent.checksum);
        assert!(fs::read(server.there.join("y")).unwrap() == bytes);
        assert_eq!(names(&server.there), ["x", "y"]);
        fs::remove_file(server.there.join("y")).unwrap();
    }
}

#[test]
fn proftpd_goes_on_with_files() {
    let Some(server) = Proftpd::start() else {
        return;
    };
    let here = tempfile::tempdir().unwrap();
    let bytes = noise(2_000_000);
    fs::write(server.there.join("x"), &bytes).unwrap();
    let target = here.path().join("x");
    fs::write(here.path().join(".x.part"), &bytes[..1_500_000]).unwrap();
    let got = get(server.process.address, "x", &target, options()).unwrap();
    assert_eq!((got.resumed_at, got.bytes), (1_500_000, 500_000));
    assert!(is_verified(&got), "{:?}", got.checksum);
    assert!(fs::read(&target).unwrap() == bytes);
    fs::write(server.there.join(".y.part"), &bytes[..700_000]).unwrap();
    let sent = put(server.process.address, &target, "y", options()).unwrap();
    assert_eq!((sent.resumed_at, sent.bytes), (700_000, 1_300_000));
    assert!(is_verified(&sent), "{:?}", sent.checksum);
    assert!(fs::read(server.there.join("y")).unwrap() == bytes);
}

/// With MLSD.
#[test]
fn proftpd_lists_kinds_sizes_and_times() {
    let Some(server) = Proftpd::start() else {
        return;
    };
    fs::write(server.there.join("a file"), [7; 1234]).unwrap();
    fs::create_dir(server.there.join("d")).unwrap();
    let entries = connection(server.process.address, "", options())
        .with(|session| session.list(b""))
        .unwrap();
    let mut told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.text(), entry.kind))
        .collect();
    told.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        told,
        [
            ("a file".to_owned(), Kind::File),
            ("d".to_owned(), Kind::Directory)
        ]
    );
    assert!(entries.iter().all(|entry| entry.modified.is_some()));
    let file = entries.iter().find(|entry| entry.kind == Kind::File);
    assert_eq!(file.unwrap().size, Some(1234));
}

#[test]
fn proftpd_sends_to_proftpd() {
    let (Some(a), Some(b)) = (Proftpd::start(), Proftpd::start()) else {
        return;
    };
    let bytes = noise(2_000_000);
    fs::write(a.there.join("x"), &bytes).unwrap();
    let mut from = connection(a.process.address, "x", options());
    let mut to = connection(b.process.address, "y", options());
    let report = third_party(&mut from, &mut to, 0).unwrap();
    assert_eq!(report.bytes, 2_000_000);
    let Verification::Verified(checksum) = &report.checksum else {
        panic!("{:?}", report.checksum);
    };
    assert_eq!(checksum.algorithm, "SHA-256");
    assert!(fs::read(b.there.join("y")).unwrap() == bytes);
    assert_eq!(names(&b.there), ["y"]);
}
