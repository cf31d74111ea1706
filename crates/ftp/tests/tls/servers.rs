//! The client with TLS servers of other projects: vsftpd and ProFTPD's mod_tls, both of which demand resumption.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use fairwind_ftp::client::{Connection, Credentials, DataMode, Options, Place, Retrieval, Storage};
use fairwind_testing::{install_root, or_skip};

use super::Authority;
use super::ours::{alice, trusting};
use crate::client::others::Vsftpd;
use crate::client::proftpd::Proftpd;
use crate::common::noise;

/// Moves files both ways, more of them in a session than tickets come with its control connection.
fn moves_files(
    address: SocketAddr,
    who: Credentials,
    authority: &Authority,
    there: &Path,
    prefix: &str,
) {
    let content = noise(1_000_000);
    fs::write(there.join("x"), &content).unwrap();
    let place: Place = format!("ftpes://localhost:{}/", address.port())
        .parse()
        .unwrap();
    for mode in [DataMode::Passive, DataMode::Active] {
        let options = Options {
            mode,
            ..trusting(authority)
        };
        let mut connection = Connection::new(place.clone(), who.clone(), options);
        let here = tempfile::tempdir().unwrap();
        for round in 0..5 {
            let target = here.path().join(format!("x{round}"));
            let retrieval = Retrieval {
                remote: format!("{prefix}x").into(),
                target: target.clone(),
                listed: None,
            };
            let got = retrieval.run(&mut connection, 0).unwrap();
            assert!(fs::read(&target).unwrap() == content, "{mode:?} {round}");
            assert_eq!(got.interruptions, [""; 0], "{mode:?} {round}");
            let storage = Storage {
                source: target,
                remote: format!("{prefix}y{round}").into(),
                present: None,
            };
            let sent = storage.run(&mut connection, 0).unwrap();
            assert_eq!(sent.interruptions, [""; 0], "{mode:?} {round}");
            assert!(fs::read(there.join(format!("y{round}"))).unwrap() == content);
            let names = connection.with(|session| session.list(prefix.as_bytes()));
            assert_eq!(names.unwrap().len(), 2 + round);
        }
        for round in 0..5 {
            fs::remove_file(there.join(format!("y{round}"))).unwrap();
        }
    }
}

#[test]
fn vsftpd_demands_resumption_and_has_it() {
    let authority = Authority::new();
    let files = authority.server_files();
    let lines = format!(
        "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
         require_ssl_reuse=YES\nstrict_ssl_read_eof=YES\nssl_ciphers=HIGH\nrsa_cert_file={}\nrsa_private_key_file={}\n",
        files.certificate.display(),
        files.key.display(),
    );
    let Some(server) = Vsftpd::start_with(&lines) else {
        return;
    };
    let there = server.directory.path().join("pub");
    let who = Credentials::anonymous();
    moves_files(server.process.address, who, &authority, &there, "pub/");
}

/// Lines that load ProFTPD's modules with mod_tls, which comes in a package of its own.
pub(super) fn proftpd_tls(folder: &Path, authority: &Authority) -> Option<String> {
    let room = or_skip(install_root("proftpd"))?;
    let own = room.join("usr/lib/proftpd");
    let crypto = [
        own.clone(),
        room.join("../proftpd-mod-crypto/usr/lib/proftpd"),
    ];
    let crypto = crypto
        .iter()
        .find(|folder| folder.join("mod_tls.so").exists());
    let crypto = or_skip(crypto.ok_or("mod_tls is missing (scripts/setup test unpacks it)"))?;
    // All modules have to be in one folder.
    let modules = folder.join("modules");
    fs::create_dir(&modules).unwrap();
    for from in [&own, crypto] {
        for module in fs::read_dir(from).unwrap() {
            let module = module.unwrap();
            let _ = symlink(module.path(), modules.join(module.file_name()));
        }
    }
    let files = authority.server_files();
    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o600)).unwrap();
    let loaded: String = ["mod_xfer", "mod_ls", "mod_tls"]
        .iter()
        .filter(|name| modules.join(format!("{name}.so")).exists())
        .map(|name| format!("LoadModule {name}.c\n"))
        .collect();
    Some(format!(
        "ModulePath {}\n{loaded}TLSEngine on\nTLSRequired on\nTLSVerifyClient off\n\
         TLSECCertificateFile {}\nTLSECCertificateKeyFile {}\nTLSLog {}/tls.log\n",
        modules.display(),
        files.certificate.display(),
        files.key.display(),
        folder.display(),
    ))
}

#[test]
fn proftpd_demands_resumption_and_has_it_under_both_versions() {
    for versions in ["TLSv1.2", "TLSv1.3", "TLSv1.2 TLSv1.3"] {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let Some(lines) = proftpd_tls(folder.path(), &authority) else {
            return;
        };
        let Some(server) = Proftpd::start_with(&format!("{lines}TLSProtocol {versions}\n")) else {
            return;
        };
        let (address, there) = (server.process.address, server.there.clone());
        moves_files(address, alice(), &authority, &there, "");
    }
}
