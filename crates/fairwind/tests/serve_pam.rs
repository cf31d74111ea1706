//! System users: logins by PAM, with services and users of the test's own in a mount namespace.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use fairwind_testing::{permitted, root, wait_until};
use rustix::process::Signal;

use crate::serve::{Control, NOBODY, Service};

/// Numbers that no system assigns.
const PAT: u32 = 54_331;
const SAM: u32 = 54_332;

/// A folder with a directory to serve, PAM services, and users `pat`, `sam` and, with root's number, `toor`.
struct Place {
    folder: tempfile::TempDir,
}

/// Checks the password that pam_exec(8) passes on: `right` for each user; a login of `slow` takes for ever, one of
/// `crash` kills the process.
const SCRIPT: &str = "#!/bin/sh
case $PAM_USER in
slow) exec sleep 600 ;;
crash) kill -9 $PPID ;;
esac
read -r password
[ \"$password\" = right ] && [ \"$PAM_TTY\" = ftp ] && [ \"$PAM_RHOST\" = 127.0.0.1 ]
";

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder };
        fs::set_permissions(place.at(""), Permissions::from_mode(0o755)).unwrap();
        for (directory, owner) in [
            ("served", NOBODY),
            ("served/pat", PAT),
            ("served/sam", SAM),
            ("pam.d", 0),
        ] {
            fs::create_dir(place.at(directory)).unwrap();
            chown(place.at(directory), Some(owner), Some(owner)).unwrap();
        }
        for user in ["pat", "sam"] {
            fs::set_permissions(
                place.at(&format!("served/{user}")),
                Permissions::from_mode(0o700),
            )
            .unwrap();
        }
        let users = fs::read_to_string("/etc/passwd").unwrap()
            + &format!(
                "pat:x:{PAT}:{PAT}::/:/bin/sh\nsam:x:{SAM}:{SAM}::/:/bin/sh\ntoor:x:0:0::/:/bin/sh\n"
            )
            + "slow:x:54333:54333::/:/bin/sh\ncrash:x:54334:54334::/:/bin/sh\nnia:x:54335:54335::/:/bin/sh\n";
        fs::write(place.at("passwd"), users).unwrap();
        let groups = fs::read_to_string("/etc/group").unwrap() + "workers:x:54340:pat\n";
        fs::write(place.at("group"), groups).unwrap();
        let log = format!(
            "#!/bin/sh\necho $PAM_TYPE $PAM_USER >> {}\n",
            place.at("log").display()
        );
        fs::write(place.at("note"), log).unwrap();
        fs::set_permissions(place.at("note"), Permissions::from_mode(0o755)).unwrap();
        fs::write(place.at("check"), SCRIPT).unwrap();
        fs::set_permissions(place.at("check"), Permissions::from_mode(0o755)).unwrap();
        let exec = format!(
            "auth required pam_exec.so quiet expose_authtok {}",
            place.at("check").display()
        );
        for (service, auth, account) in [
            ("script", exec.as_str(), "account required pam_permit.so"),
            (
                "permit",
                "auth required pam_permit.so",
                "account required pam_permit.so",
            ),
            (
                "deny",
                "auth required pam_deny.so",
                "account required pam_permit.so",
            ),
            (
                "expired",
                "auth required pam_permit.so",
                "account required pam_deny.so",
            ),
            (
                "broken",
                "auth required pam_nonexistent.so",
                "account required pam_permit.so",
            ),
        ] {
            fs::write(
                place.at(&format!("pam.d/{service}")),
                format!("{auth}\n{account}\n"),
            )
            .unwrap();
        }
        let permitted = "auth required pam_permit.so\naccount required pam_permit.so\n";
        let note = place.at("note");
        for (service, session) in [
            (
                "session",
                format!("session required pam_exec.so quiet {}", note.display()),
            ),
            ("full", "session required pam_deny.so".to_owned()),
        ] {
            let text = format!("{permitted}{session}\n");
            fs::write(place.at(&format!("pam.d/{service}")), text).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `fairwind serve` with these options, where only the test's services and users are known.
    fn command(&self, options: &[&str]) -> Command {
        let script = "mount --bind \"$0/pam.d\" /etc/pam.d && mount --bind \"$0/passwd\" /etc/passwd && \
             mount --bind \"$0/group\" /etc/group && exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", script])
            .arg(self.folder.path());
        command
            .args([env!("CARGO_BIN_EXE_fairwind"), "serve"])
            .arg(self.at("served"));
        command.args(["--listen", "127.0.0.1:0"]).args(options);
        command
    }

    fn serve(&self, service: &str, options: &[&str], settings: &str) -> Service {
        let file = self.at("ftp.toml");
        fs::write(
            &file,
            format!("{settings}\n[limits]\nlogin_pause_ms = 0\nlogin_s = 10\nlogin_failures = 9\n"),
        )
        .unwrap();
        let mut all = vec!["--pam", service, "--config", file.to_str().unwrap()];
        all.extend(options);
        Service::by(&mut self.command(&all))
    }
}

fn login(service: &Service, user: &str, password: &str) -> (Control, String) {
    let mut control = service.connect();
    assert_eq!(control.say(&format!("USER {user}")), "331");
    let code = control.say(&format!("PASS {password}"));
    (control, code)
}

fn logged_in(service: &Service, user: &str) -> Control {
    let (mut control, code) = login(service, user, "right");
    assert_eq!(code, "230", "{user}");
    assert_eq!(control.say("TYPE I"), "200");
    control
}

fn store(control: &mut Control, name: &str) -> String {
    let mut data = control.data();
    let code = control.say(&format!("STOR {name}"));
    if code != "150" {
        return code;
    }
    data.write_all(b"abc").unwrap();
    drop(data);
    control.code()
}

#[test]
fn system_users_log_in_with_the_passwords_that_pam_takes() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    let service = place.serve("script", &["--user", "alice"], "");
    logged_in(&service, "pat");
    for (user, password) in [
        ("pat", "wrong"),
        ("nobody-at-all", "right"),
        ("toor", "right"),
        ("pat", ""),
    ] {
        assert_eq!(login(&service, user, password).1, "530", "{user}");
    }
    // Users of the configuration are not PAM's.
    assert_eq!(login(&service, "alice", "right").1, "530");
    service.alice();
    for (name, code) in [
        ("permit", "230"),
        ("deny", "530"),
        ("expired", "530"),
        ("broken", "451"),
    ] {
        let service = place.serve(name, &[], "");
        let told = login(&service, "pat", "any").1;
        assert_eq!(told, code, "{name}");
    }
}

#[test]
fn a_module_that_hangs_or_crashes_holds_up_nobody_else() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    let mut service = place.serve("script", &[], "");
    let mut slow = service.connect();
    assert_eq!(slow.say("USER slow"), "331");
    slow.send("PASS right");
    logged_in(&service, "pat");
    assert_eq!(login(&service, "crash", "right").1, "451");
    logged_in(&service, "sam");
    assert!(slow.is_silent(), "the others came first");
    // After `login_s`.
    assert_eq!(slow.code(), "451");
    service.ask_to_end();
    assert!(service.wait().success());
}

#[test]
fn files_are_served_with_the_rights_of_the_user() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    fs::write(place.at("served/sam/x"), "secret").unwrap();
    let service = place.serve("script", &["--pam-as-user"], "");
    let (mut pat, mut sam) = (logged_in(&service, "pat"), logged_in(&service, "sam"));
    assert_eq!(store(&mut pat, "pat/y"), "226");
    let facts = fs::metadata(place.at("served/pat/y")).unwrap();
    assert_eq!((facts.uid(), facts.gid()), (PAT, PAT));
    assert_eq!(pat.say("MKD pat/d"), "257");
    assert_eq!(fs::metadata(place.at("served/pat/d")).unwrap().uid(), PAT);
    for command in [
        "RETR sam/x",
        "LIST sam",
        "SIZE sam/x",
        "DELE sam/x",
        "MKD sam/d",
        "MKD d",
    ] {
        let _data = pat.data();
        assert_eq!(pat.say(command), "550", "{command}");
    }
    assert_eq!(store(&mut pat, "sam/y"), "550");
    let mut data = sam.data();
    assert_eq!(sam.say("LIST sam"), "150");
    let mut listing = String::new();
    data.read_to_string(&mut listing).unwrap();
    assert!(listing.ends_with(" x\r\n"), "{listing}");
    assert_eq!(sam.code(), "226");
    // Back and forth, the threads keep nobody's rights.
    let mut stranger = service.connect();
    assert_eq!(stranger.say("USER anonymous"), "331");
    assert_eq!(stranger.say("PASS me@example.org"), "230");
    for _ in 0..20 {
        assert_eq!(stranger.say("SIZE sam/x"), "550");
        assert_eq!(sam.say("SIZE sam/x"), "213");
        assert_eq!(pat.say("SIZE pat/y"), "213");
        assert_eq!(stranger.say("MDTM pat/y"), "550");
    }
}

#[test]
fn a_user_may_have_the_directory_of_its_name() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    fs::remove_dir(place.at("served/sam")).unwrap();
    let service = place.serve("script", &["--pam-as-user"], "pam_homes = true");
    let mut pat = logged_in(&service, "pat");
    assert_eq!(store(&mut pat, "/y"), "226");
    assert!(place.at("served/pat/y").exists());
    assert_eq!(login(&service, "sam", "right").1, "451");
}

/// What the modules were told about sessions.
fn noted(place: &Place) -> Vec<String> {
    let text = fs::read_to_string(place.at("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_session_is_open_while_a_user_is_logged_in_and_closed_however_it_ends() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    let mut service = place.serve("session", &[], "pam_session = true");
    let mut pat = logged_in(&service, "pat");
    assert_eq!(noted(&place), ["open_session pat"]);
    assert_eq!(pat.say("REIN"), "220");
    wait_until("REIN closes the session", || noted(&place).len() == 2);
    let mut sam = logged_in(&service, "sam");
    drop(logged_in(&service, "pat"));
    wait_until("the client has gone", || noted(&place).len() == 5);
    assert_eq!(sam.say("NOOP"), "200");
    assert_eq!(noted(&place).last().unwrap(), "close_session pat");
    // Nothing of the server is left to close the session; its process does.
    service.signal(Signal::KILL);
    service.wait();
    wait_until("the server has gone", || noted(&place).len() == 6);
    assert_eq!(noted(&place).last().unwrap(), "close_session sam");

    fs::remove_file(place.at("log")).unwrap();
    let service = place.serve("session", &[], "");
    drop(logged_in(&service, "pat"));
    assert_eq!(noted(&place), [""; 0]);
}

#[test]
fn a_session_that_cannot_be_opened_is_no_wrong_password() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    let service = place.serve("full", &[], "pam_session = true");
    assert_eq!(login(&service, "pat", "any").1, "451");
    service.tells("PAM opens no session");
    let service = place.serve("full", &[], "");
    assert_eq!(login(&service, "pat", "any").1, "230");
}

#[test]
fn system_users_have_rights_and_quotas_by_name_and_by_group() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.at("served/pat/kept")).unwrap();
    chown(place.at("served/pat/kept"), Some(PAT), Some(PAT)).unwrap();
    let settings = "pam_homes = true
[[system_user]]
groups = [\"workers\"]
quota_bytes = 5
[[system_user]]
users = [\"sam\"]
write = false
[[system_user]]
login = false
[[access]]
path = \"/pat/kept\"
groups = [\"workers\"]
rights = [\"list\"]
";
    let service = place.serve("script", &["--pam-as-user"], settings);
    let (mut pat, mut sam) = (logged_in(&service, "pat"), logged_in(&service, "sam"));
    assert_eq!(store(&mut pat, "a"), "226");
    assert_eq!(store(&mut pat, "b"), "552");
    assert_eq!(pat.say("DELE a"), "250");
    assert_eq!(store(&mut pat, "c"), "226");
    assert_eq!(pat.say("MKD kept/d"), "550");
    assert_eq!(pat.say("MKD d"), "257");
    assert_eq!(store(&mut sam, "a"), "550");
    assert_eq!(login(&service, "nia", "right").1, "530");
}

#[test]
fn what_cannot_work_is_said_before_anything_is_served() {
    if !permitted(root()) {
        return;
    }
    let place = Place::new();
    let told = |options: &[&str]| {
        let output = place.command(options).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        told(&["--pam", "nothing"]),
        "error: --pam: there is no PAM service nothing: /etc/pam.d/nothing is missing\n"
    );
    let outside = told(&["--pam", "../passwd"]);
    assert!(
        outside.contains("is not the name of a PAM service"),
        "{outside}"
    );
    assert_eq!(
        told(&["--pam-as-user"]),
        "error: --pam-as-user needs --pam\n"
    );
    assert!(Path::new("/etc/pam.d").exists());
}
