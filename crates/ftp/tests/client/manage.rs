//! Names made, found by patterns and removed on every available server.

use std::fs;
use std::os::unix::fs::symlink;

use fairwind_ftp::client::{Selection, join, remove_tree, scan, usage};

use super::every_server::{Peer, every};

fn found(peer: &Peer, pattern: &str) -> Vec<String> {
    let mut connection = peer.connection();
    let url = format!(
        "ftp://{}/{}{pattern}",
        connection.place().server(),
        peer.prefix
    );
    let selection: Selection = url.parse().unwrap();
    let found = selection.find(&mut connection).unwrap();
    let names = found
        .into_iter()
        .map(|found| String::from_utf8(found.name).unwrap());
    names.collect()
}

#[test]
fn patterns_find_the_same_on_every_server() {
    for peer in every() {
        for name in [
            "run1/a.h5",
            "run1/a*.txt",
            "run2/b.h5",
            "run2/deep/c.h5",
            ".run3/d.h5",
        ] {
            let path = peer.there.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        // It leads back to where it is.
        symlink(".", peer.there.join("run2/loop")).unwrap();
        let name = peer.name;
        assert_eq!(
            found(&peer, "run?/*.h5"),
            ["run1/a.h5", "run2/b.h5"],
            "{name}"
        );
        assert_eq!(found(&peer, "run[12]/"), ["run1", "run2"], "{name}");
        assert_eq!(found(&peer, "run1/a%2A*"), ["a*.txt"], "{name}");
        let all = ["run1/a.h5", "run2/b.h5", "run2/deep/c.h5"];
        assert_eq!(found(&peer, "**/*.h5"), all, "{name}");
    }
}

#[test]
fn a_tree_is_removed_and_what_its_links_lead_to_stays() {
    for peer in every() {
        for name in ["tree/a", "tree/b/c", "tree/.d/e", "other/f"] {
            let path = peer.there.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        symlink("../other", peer.there.join("tree/link")).unwrap();
        let mut connection = peer.connection();
        let root = peer.path(b"tree");
        let (usages, refused) = usage(&mut connection, &root).unwrap();
        assert_eq!(
            (refused, usages[0].bytes >= 3),
            (vec![], true),
            "{}",
            peer.name
        );
        let keep = |path: &[u8], _: bool| path == b"b/c";
        let removal = remove_tree(&mut connection, &root, &keep).unwrap();
        assert_eq!(removal.refused, Vec::<String>::new(), "{}", peer.name);
        assert!(peer.there.join("tree/b/c").exists(), "{}", peer.name);
        assert!(
            !removal.removed.contains(&join(&root, b"")),
            "{}",
            peer.name
        );
        let removal = remove_tree(&mut connection, &root, &scan::everything).unwrap();
        assert_eq!(removal.refused, Vec::<String>::new(), "{}", peer.name);
        assert!(!peer.there.join("tree").exists(), "{}", peer.name);
        assert!(peer.there.join("other/f").exists(), "{}", peer.name);
    }
}
