//! `fairwind serve` on a public host: what its operator checks, sees and ends.

use std::fs;
use std::process::Output;

use crate::serve::fairwind;

fn check(text: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ftp.toml");
    fs::write(&file, text).unwrap();
    let arguments = [dir.path(), "--config".as_ref(), &file, "--check".as_ref()];
    let arguments = arguments.map(|argument| argument.to_str().unwrap());
    fairwind(&arguments).output().unwrap()
}

#[test]
fn a_check_says_what_is_wrong_and_where_and_starts_nothing() {
    for (text, told) in [
        (
            "[limits]\nrate = 1\n",
            "line 2: limits.rate = 1: 0 or at least 1000 bytes per second",
        ),
        ("listen = 21\n", "line 1"),
        ("anonymus = true\n", "anonymus"),
        ("deny = [\"192.0.2.0/33\"]\n", "line 1"),
        (
            "[[user]]\nname = \"ftp\"\npassword = \"x\"\n",
            "user \"ftp\": not a name for a user",
        ),
    ] {
        let output = check(text);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(told), "{text}: {said}");
        assert!(output.stdout.is_empty());
    }
    let output = check("listen = \"127.0.0.1:1\"\nallow = [\"2001:db8::/32\"]\n");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"the configuration is valid\n");
}
