//! `fairwind serve` with virtual hosts, as root starts it: what the confined server reaches.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use fairwind_testing::{permitted, root};
use rustix::process::Signal;

use crate::serve::{Service, fairwind};

/// A user id that no system assigns.
const OWNER: u32 = 54_321;

fn tree(folder: &Path, name: &str) -> String {
    let tree = folder.join(name);
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("x"), name).unwrap();
    chown(&tree, Some(OWNER), Some(OWNER)).unwrap();
    tree.to_str().unwrap().to_owned()
}

#[test]
fn a_confined_server_serves_all_its_hosts_and_new_ones_after_a_restart() {
    if !permitted(root()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| tree(folder.path(), name));
    let (banner, file) = (folder.path().join("banner"), folder.path().join("ftp.toml"));
    // Root's alone, as keys are.
    fs::write(&banner, "This is c\n").unwrap();
    fs::set_permissions(&banner, fs::Permissions::from_mode(0o600)).unwrap();
    let hosts = format!(
        "[[host]]\nnames = [\"b.example\"]\nroot = {b:?}\n\
         [[host]]\nnames = [\"c.example\"]\nroot = {c:?}\nbanner = {banner:?}\n"
    );
    fs::write(&file, &hosts).unwrap();
    let file = file.to_str().unwrap();
    let service = Service::by(&mut fairwind(&[
        &a,
        "--listen",
        "127.0.0.1:0",
        "--config",
        file,
    ]));
    let fetched = |host: &str| {
        let mut control = service.connect();
        for (command, code) in [
            (format!("HOST {host}").as_str(), "220"),
            ("USER anonymous", "331"),
            ("PASS me@example.org", "230"),
        ] {
            assert_eq!(control.say(command), code, "{command}");
        }
        let (mut data, mut content) = (control.data(), String::new());
        assert_eq!(control.say("RETR x"), "150");
        data.read_to_string(&mut content).unwrap();
        content
    };
    assert_eq!(fetched("b.example"), "b");

    fs::write(
        file,
        format!("{hosts}[[host]]\nnames = [\"d.example\"]\nroot = {d:?}\n"),
    )
    .unwrap();
    service.signal(Signal::HUP);
    service.tells(&format!("host: {d} can be served after a restart"));
    service.tells("was read again");
    assert_eq!(fetched("b.example"), "b");
    let mut control = service.connect();
    assert_eq!(control.say("HOST c.example"), "220");
    let mut control = service.connect();
    assert_eq!(control.say("HOST d.example"), "220");
}
