//! Revocation lists: of clients' certificates at the server, of servers' at the client.

use std::fs;
use std::path::PathBuf;

use fairwind_ftp::client::ClientError;
use fairwind_ftp::tls::TlsSettings;

use super::authority::{Authority, Issued, Time};
use super::ours::{fetch, options, place};
use super::{Secure, Server, bind_error, is_refused};

/// A server that asks clients for certificates of this authority, by these lists.
fn server_with(clients: &Authority, lists: PathBuf) -> Server {
    Server::with(|tls| {
        tls.client_ca = Some(clients.ca_file());
        tls.client_crl = Some(lists);
    })
}

/// The same certificate again: a session takes it.
fn copy(issued: &Issued) -> Issued {
    Issued {
        certificate: issued.certificate.clone(),
        key: issued.key.clone(),
        ..*issued
    }
}

#[test]
fn a_client_whose_certificate_is_revoked_is_refused_and_others_are_not() {
    let clients = Authority::new();
    let (good, bad) = (clients.issue(&["alice"]), clients.issue(&["mallory"]));
    let server = server_with(&clients, clients.revocations(&[bad.serial], Time::Now));
    server.running.write("x", "x");
    let mut alice = Secure::alice_as(&server, server.authority.client_with(good));
    assert_eq!(alice.fetch("RETR x"), b"x");
    assert!(is_refused(&server, server.authority.client_with(bad)));
}

#[test]
fn a_new_list_counts_for_new_sessions_once_the_server_has_read_it() {
    let clients = Authority::new();
    let issued = clients.issue(&["alice"]);
    let lists = clients.revocations(&[], Time::Now);
    let server = server_with(&clients, lists.clone());
    server.running.write("x", "x");
    let shown = || server.authority.client_with(copy(&issued));
    let mut old = Secure::alice_as(&server, shown());
    fs::write(&lists, clients.revoke(&[issued.serial], Time::Now)).unwrap();
    assert!(!is_refused(&server, shown()));
    let mut config = crate::common::config(server.running.dir.path());
    let mut tls = server.authority.server_files();
    tls.client_ca = Some(clients.ca_file());
    tls.client_crl = Some(lists.clone());
    config.tls = Some(tls);
    server.running.reload.with(config.clone()).unwrap();
    assert!(is_refused(&server, shown()));
    // Who is there stays, as with every other setting.
    assert_eq!(old.fetch("RETR x"), b"x");
    // A file that is none changes nothing.
    fs::write(&lists, "no list").unwrap();
    let error = server.running.reload.with(config).unwrap_err().to_string();
    assert!(error.contains("there is no revocation list"), "{error}");
    assert!(is_refused(&server, shown()));
}

#[test]
fn a_list_that_is_too_old_or_of_another_authority_lets_nobody_in() {
    let clients = Authority::new();
    let other = Authority::new();
    let past = clients.revocations(&[], Time::Past);
    for lists in [past, other.revocations(&[], Time::Now)] {
        let server = server_with(&clients, lists);
        let shown = server.authority.client_with(clients.issue(&["alice"]));
        assert!(is_refused(&server, shown));
    }
}

/// A list that somebody else has signed in the authority's name.
#[test]
fn a_forged_list_counts_for_nothing() {
    let clients = Authority::new();
    let forger = clients.with_another_key();
    let server = server_with(&clients, forger.revocations(&[], Time::Now));
    let shown = server.authority.client_with(clients.issue(&["alice"]));
    assert!(is_refused(&server, shown));
}

#[test]
fn lists_without_authorities_or_without_content_are_errors_with_their_file() {
    let authority = Authority::new();
    let lists = authority.revocations(&[], Time::Now);
    let name = lists.display().to_string();
    let mut tls = authority.server_files();
    tls.client_crl = Some(lists);
    let error = bind_error(tls.clone());
    assert!(
        error.contains(&name) && error.contains("without client_ca"),
        "{error}"
    );
    tls.client_ca = Some(authority.ca_file());
    tls.client_crl = Some(authority.ca_file());
    let error = bind_error(tls.clone());
    assert!(
        error.contains("there is no revocation list (PEM) in it"),
        "{error}"
    );
    let damaged = authority.damaged_revocations();
    let name = damaged.display().to_string();
    tls.client_crl = Some(damaged);
    let error = bind_error(tls);
    assert!(error.contains(&name), "{error}");
}

/// The error of a download from a server with this certificate.
fn refusal(authority: &Authority, issued: &Issued, lists: PathBuf) -> Option<ClientError> {
    let server = Server::configured(|config| {
        let tls = config.tls.as_mut().unwrap();
        (tls.certificate, tls.key) = authority.files_of(issued);
    });
    server.running.write("x", "x");
    let here = tempfile::tempdir().unwrap();
    let settings = TlsSettings {
        ca: Some(authority.ca_file()),
        crl: Some(lists),
        ..TlsSettings::default()
    };
    let place = place("ftpes", server.running.address);
    fetch(place, options(settings), &here.path().join("x")).err()
}

#[test]
fn the_client_refuses_a_revoked_server_and_one_of_which_its_lists_tell_nothing() {
    let authority = Authority::new();
    let issued = authority.issue(&["localhost"]);
    let revoked = [issued.serial];
    let why = |lists| {
        let error = refusal(&authority, &issued, lists).expect("it is not to be trusted");
        assert!(!error.is_transient(), "{error}");
        error.to_string()
    };
    let error = why(authority.revocations(&revoked, Time::Now));
    assert!(error.contains("has been revoked"), "{error}");
    let other = Authority::new();
    let error = why(other.revocations(&[], Time::Now));
    assert!(
        error.contains("--tls-crl has no revocation list"),
        "{error}"
    );
    let error = why(authority.revocations(&[], Time::Past));
    assert!(error.contains("too old"), "{error}");
    let error = why(PathBuf::from("/nonexistent/list.pem"));
    assert!(
        error.contains("/nonexistent/list.pem: No such file"),
        "{error}"
    );
    let good = refusal(&authority, &issued, authority.revocations(&[], Time::Now));
    assert!(good.is_none(), "{good:?}");
}
