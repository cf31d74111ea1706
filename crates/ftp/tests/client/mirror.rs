//! Directories made equal, with every available server, and with servers whose listings are not to be trusted.

use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use fairwind_ftp::client::mirror::{Mirror, Plan, Way};
use fairwind_ftp::client::{ClientError, Connection, Filter, Options, batch};

use super::every_server::every;
use super::scripted::{Script, Scripted};
use super::{connection, names, options};
use crate::common::Running;

fn mirror(way: Way, remote: &[u8], local: &Path) -> Mirror {
    Mirror {
        way,
        remote: remote.to_vec(),
        local: local.to_owned(),
        filter: Filter::default(),
        delete: true,
    }
}

/// Carries out a plan; returns how many files were moved.
fn carry_out(mirror: &Mirror, mut connection: Connection, plan: Plan) -> usize {
    assert_eq!(plan.refused, Vec::<String>::new());
    for path in &plan.make {
        mirror.make(&mut connection, path).unwrap();
    }
    let mut after = connection.another();
    let jobs = plan.files.into_iter().map(|(_, job)| job).collect();
    let outcome = batch::run(connection, jobs, NonZeroUsize::MIN).unwrap();
    assert_eq!(outcome.failures, []);
    for found in &plan.delete {
        let removal = mirror.delete(&mut after, found).unwrap();
        assert_eq!(removal.refused, Vec::<String>::new());
    }
    outcome.files
}

#[test]
fn every_server_is_mirrored_there_and_back() {
    for peer in every() {
        let (here, back) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for name in ["a", "d/b", "d/e/c"] {
            let path = here.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let root = peer.path(b"tree");
        let up = mirror(Way::Up, &root, here.path());
        let mut connection = peer.connection();
        let plan = up.plan(&mut connection).unwrap();
        assert_eq!(carry_out(&up, connection, plan), 3, "{}", peer.name);
        assert_eq!(peer.read("tree/d/e/c"), b"d/e/c", "{}", peer.name);
        let mut connection = peer.connection();
        let plan = up.plan(&mut connection).unwrap();
        let rest = (plan.files.len(), plan.unchanged, plan.delete.len());
        assert_eq!(rest, (0, 3, 0), "{}", peer.name);

        fs::remove_dir_all(here.path().join("d/e")).unwrap();
        fs::write(here.path().join("a"), "longer than before").unwrap();
        let plan = up.plan(&mut connection).unwrap();
        assert_eq!(carry_out(&up, connection, plan), 1, "{}", peer.name);
        assert_eq!(names(&peer.there.join("tree/d")), ["b"], "{}", peer.name);

        fs::write(back.path().join("extra"), "x").unwrap();
        let down = mirror(Way::Down, &root, back.path());
        let mut connection = peer.connection();
        let plan = down.plan(&mut connection).unwrap();
        assert_eq!(carry_out(&down, connection, plan), 2, "{}", peer.name);
        assert_eq!(names(back.path()), ["a", "d"], "{}", peer.name);
        let mut connection = peer.connection();
        let plan = down.plan(&mut connection).unwrap();
        assert_eq!((plan.files.len(), plan.unchanged), (0, 2), "{}", peer.name);
    }
}

/// The plan that a server with this listing leads to, for a directory here with one file.
fn plan_of(script: Script) -> Result<Plan, ClientError> {
    let server = Scripted::start(Script {
        features: vec!["MLST type*;size*;modify*;unique*;"],
        extended: true,
        ..script
    });
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("precious"), "p").unwrap();
    let impatient = Options {
        patience: Duration::from_secs(2),
        retries: 0,
        ..options()
    };
    let mut connection = connection(server.address, "", impatient);
    mirror(Way::Down, b"", here.path()).plan(&mut connection)
}

/// What is deleted here, and left out, if a server of LIST answers its option so.
fn deleted_with(option: &'static str, listing: &'static str) -> (Vec<String>, Vec<String>) {
    let server = Scripted::start(Script {
        listing,
        replies: vec![("LIST -a", option)],
        ..Script::default()
    });
    let here = tempfile::tempdir().unwrap();
    for name in ["x", "extra", ".hidden", ".d/e", "f/.g"] {
        let path = here.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let mut connection = connection(server.address, "", options());
    let plan = mirror(Way::Down, b"", here.path()).plan(&mut connection);
    let plan = plan.unwrap();
    let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
    let deleted = plan.delete.iter().map(|found| text(&found.path));
    (deleted.collect(), plan.left_out)
}

#[test]
fn names_that_a_server_may_not_list_are_not_deleted() {
    let plain = "-rw-r--r-- 1 a b 7 Jan 01 2020 x\r\n";
    let (deleted, left_out) = deleted_with("550 No\r\n", plain);
    assert_eq!(deleted, ["extra", "f"]);
    let why = "not deleted: the server may not list names that begin with a dot";
    let expected = [".d", ".hidden"].map(|name| format!("{name}: {why}"));
    assert_eq!(left_out, expected);
    // One name that begins with a dot shows that all are listed.
    let all = format!("{plain}-rw-r--r-- 1 a b 7 Jan 01 2020 .y\r\n").leak();
    let (deleted, left_out) = deleted_with("550 No\r\n", all);
    assert_eq!(deleted, [".d", ".hidden", "extra", "f"]);
    assert_eq!(left_out, Vec::<String>::new());
}

#[test]
fn what_a_link_leads_to_is_not_deleted_for_the_lack_of_its_own_name() {
    let server = Running::start();
    for name in ["current/x", "y"] {
        let path = server.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    let here = tempfile::tempdir().unwrap();
    let at = |name: &str| here.path().join(name);
    for name in ["all/release-7/old", "all/release-6/x", "data/y", "extra/z"] {
        fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        fs::write(at(name), "of before").unwrap();
    }
    symlink("all/release-7", at("via")).unwrap();
    symlink("via", at("current")).unwrap();
    symlink("data/y", at("y")).unwrap();
    let down = mirror(Way::Down, b"", here.path());
    for moved in [2, 0] {
        let mut connection = connection(server.address, "", options());
        let plan = down.plan(&mut connection).unwrap();
        let expected = [
            "all: not deleted: current leads there",
            "data: not deleted: y leads there",
            "via: not deleted: current leads there",
        ];
        assert_eq!(plan.left_out, expected);
        assert_eq!(carry_out(&down, connection, plan), moved);
        assert_eq!(names(here.path()), ["all", "current", "data", "via", "y"]);
        assert_eq!(fs::read(at("all/release-7/x")).unwrap(), b"current/x");
        assert_eq!(fs::read(at("data/y")).unwrap(), b"y");
    }
    // Another name of the same file is no part of it.
    fs::remove_file(at("y")).unwrap();
    fs::hard_link(at("data/y"), at("y")).unwrap();
    let mut connection = connection(server.address, "", options());
    let plan = down.plan(&mut connection).unwrap();
    assert_eq!(plan.unchanged, 2);
    assert!(plan.delete.iter().any(|found| found.path == b"data"));
}

#[test]
fn a_name_that_a_server_may_take_for_another_one_is_deleted_when_it_lists_both() {
    let server = Running::start();
    fs::create_dir(server.path("to")).unwrap();
    server.write("to/README", "old");
    server.write("to/extra", "old");
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("Readme"), "new").unwrap();
    let up = mirror(Way::Up, b"to", here.path());
    for (left, there) in [(1, vec!["README", "Readme"]), (0, vec!["Readme"])] {
        let mut connection = connection(server.address, "", options());
        let plan = up.plan(&mut connection).unwrap();
        assert_eq!(plan.left_out.len(), left, "{:?}", plan.left_out);
        carry_out(&up, connection, plan);
        assert_eq!(names(&server.path("to")), there);
    }
}

#[test]
fn a_listing_that_is_not_complete_deletes_nothing() {
    let listing = "type=file;size=1;modify=20200101000000; x\r\n";
    let whole = plan_of(Script {
        listing,
        ..Script::default()
    });
    assert_eq!(whole.unwrap().delete.len(), 1);
    // A line that was cut, a directory within itself, a name that leads elsewhere.
    for more in ["type=fi", "type=dir;unique=1; d\r\n", "type=file; ../y\r\n"] {
        let listing = format!("{listing}{more}").leak();
        let plan = plan_of(Script {
            listing,
            ..Script::default()
        });
        assert!(!plan.unwrap().refused.is_empty(), "{more}");
    }
    let failed = ["550 No\r\n", "150 Here\r\n426 Broken\r\n", "150 Here\r\n"];
    for reply in failed {
        let plan = plan_of(Script {
            listing,
            replies: vec![("MLSD", reply), ("LIST", reply), ("NLST", reply)],
            ..Script::default()
        });
        assert!(plan.is_err(), "{reply}");
    }
    // As vsftpd lists a directory that it may not read, and a server that could not go on.
    for listed in [
        "226 Transfer done (but failed to open directory).\r\n",
        "426 Broken\r\n",
        "451 No more\r\n",
    ] {
        let plan = plan_of(Script {
            listing,
            listed,
            ..Script::default()
        });
        assert!(plan.is_err(), "{listed}");
    }
    let empty = plan_of(Script::default()).unwrap_err().to_string();
    assert!(empty.starts_with("the source is empty"), "{empty}");
}
