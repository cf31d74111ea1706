//! Directories made equal, with every available server, and with servers whose listings are not to be trusted.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Duration;

use fairwind_ftp::client::mirror::{Mirror, Plan, Way};
use fairwind_ftp::client::{ClientError, Connection, Filter, Options, batch};

use super::every_server::every;
use super::scripted::{Script, Scripted};
use super::{connection, names, options};

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
