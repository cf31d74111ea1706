//! `scripts/ftp-load`, in small: sessions come and go, and every file is right.

use std::path::Path;
use std::process::Command;

use fairwind_testing::permitted;

#[test]
fn sessions_in_clear_and_under_tls_move_files_and_leave_nothing() {
    let there = ["python3", "openssl"].iter().all(|program| {
        let found = Command::new(program).arg("version").output();
        found.is_ok()
    });
    let missing = (!there).then_some("python3 or openssl is missing");
    if !permitted(missing.map_or(Ok(()), Err)) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(root.join("scripts/ftp-load"))
        .args(["--fairwind", env!("CARGO_BIN_EXE_fairwind")])
        .args(
            "--sessions 30 --transferring 8 --seconds 6 --ramp 1 --settle 0 --interval 2"
                .split(' '),
        )
        .args("--life 2 --transfer 0.5 --largest 300000 --tls 0.5".split(' '))
        // Memory is only as flat as in a program that has just begun.
        .args(["--flat", "200"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    let column = |line: &str, name: &str| -> u64 {
        let names = table.lines().next().unwrap().split(',');
        let at = names.clone().position(|other| other == name).unwrap();
        line.split(',').nth(at).unwrap().parse().unwrap()
    };
    let (first, last) = (table.lines().nth(1).unwrap(), table.lines().last().unwrap());
    assert_eq!(column(last, "failures"), 0);
    assert_eq!(column(last, "sessions"), 0);
    assert!(column(last, "descriptors") <= column(first, "descriptors"));
    assert!(column(last, "files") > 10, "{table}");
    assert!(column(last, "tls_files") > 0, "{table}");
}
