//! Systems with less than usual: behind chroot(2), where the kernel refuses, without time zones.

use std::process::{Command, Output};
use std::sync::MutexGuard;

use fairwind_testing::or_skip;
use tempfile::TempDir;

use crate::turn::in_the_lab;

/// Runs a shell script in its own mount namespace, with the command in `$FAIRWIND`.
fn script(options: &[&str], script: &str) -> Output {
    Command::new("unshare")
        .args(["--mount", "--pid", "--fork"])
        .args(options)
        .args(["sh", "-euc", script])
        .env("FAIRWIND", env!("CARGO_BIN_EXE_fairwind"))
        .env_remove("TZDIR")
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

#[test]
fn a_root_that_is_no_mount_point_is_no_hindrance_and_nothing_outside_changes() {
    let Some(_turn) = in_the_lab() else { return };
    let root = TempDir::new().unwrap();
    // Mounts made in the lab would be visible outside if nothing prevented that.
    let text = format!(
        "cd {}\n\
         mkdir proc sys dev tmp\n\
         for folder in /usr /etc; do mkdir .$folder; mount --rbind $folder .$folder; done\n\
         for link in /bin /lib /lib64; do cp -d $link . 2>/dev/null || true; done\n\
         cp \"$FAIRWIND\" fairwind\n\
         mount --make-rshared /\n\
         mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev\n\
         mount --make-rshared proc\n\
         chroot . /fairwind lab exec -- sh -c 'ls /proc | grep -c \"^[0-9]\" > /tmp/seen; ls /sys/class/net'\n\
         test -d proc/$$ && test -d sys/fs/bpf && echo unchanged",
        root.path().display()
    );
    let output = script(&["--propagation", "private"], &text);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "fw0\nlo\nunchanged\n"
    );
}

#[test]
fn time_zones_are_known_where_the_system_has_none() {
    let Some(_turn) = in_the_lab() else { return };
    let text = "for folder in /usr/share/zoneinfo /usr/share/lib/zoneinfo /etc/zoneinfo; do\n\
                [ ! -d $folder ] || mount -t tmpfs none $folder\n\
                done\n\
                exec \"$FAIRWIND\" history generate --csv --weeks 1 --time-zone Europe/Berlin";
    let output = script(&["--propagation", "private"], text);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

/// A user namespace in which no more network namespaces can be created, though no capability is missing.
const REFUSING: [&str; 3] = ["--user", "--map-root-user", "--mount-proc"];
const REFUSE: &str = "echo 0 > /proc/sys/user/max_net_namespaces";

/// A turn in the lab, if the kernel's refusal can be provoked: behind chroot(2) nobody gets a user namespace.
#[track_caller]
fn refused() -> Option<MutexGuard<'static, ()>> {
    let turn = in_the_lab()?;
    let there = script(&REFUSING, REFUSE).status.success();
    or_skip(there.then_some(turn).ok_or("a user namespace is needed"))
}

#[test]
fn the_doctor_tells_what_the_kernel_refuses() {
    let Some(_turn) = refused() else { return };
    let text = format!("{REFUSE}; exec \"$FAIRWIND\" doctor --for lab");
    let output = script(&REFUSING, &text);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no    trial run"), "{said}");
    assert!(said.contains("network namespace"), "{said}");
}

#[test]
fn the_demonstration_simulates_where_the_kernel_refuses() {
    let Some(_turn) = refused() else { return };
    let folder = TempDir::new().unwrap();
    let text = format!(
        "{REFUSE}; cd {}; exec \"$FAIRWIND\" demo --quick",
        folder.path().display()
    );
    let output = script(&REFUSING, &text);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("missing: "), "{said}");
    assert!(said.contains("in the simulator"), "{said}");
    assert!(said.contains("simulated"), "{said}");
}
