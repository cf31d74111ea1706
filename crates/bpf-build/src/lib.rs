//! Compiles C to eBPF objects, for build scripts.

use std::env;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The instructions of Linux 5.12 and newer: atomic operations among them.
pub const V3: &str = "-mcpu=v3";

/// The headers that eBPF programs of the workspace share.
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cc/include");

/// Compiles `source` to an eBPF object in the file `object`, with more `options` for clang. The variable
/// `CLANG` names another clang. The program can include `fairwind/kernel.h` if its package depends on
/// `fairwind-bpf`.
///
/// Ends the build script with a message if there is no clang or if it fails.
pub fn compile(source: impl AsRef<Path>, object: impl AsRef<Path>, options: &[&str]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-changed={HEADERS}");
    let libbpf = env::var("DEP_FAIRWIND_BPF_INCLUDE").expect("the package depends on fairwind-bpf");
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let name = source.as_ref().display();
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-O2", "-g", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args(["-I", HEADERS, "-isystem", &libbpf])
        // Where Debian keeps the headers of the kernel's that differ between architectures.
        .arg(format!("-idirafter/usr/include/{architecture}-linux-gnu"))
        .args(options)
        .arg("-c")
        .arg(source.as_ref())
        .arg("-o")
        .arg(object.as_ref())
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => fail(&format!(
            "{clang} does not compile {name} to eBPF; its messages are above"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => fail(&format!(
            "{clang} is not there, and {name} is compiled to eBPF by it: install the package clang \
             (Debian, Ubuntu: apt install clang), or name another in CLANG"
        )),
        Err(error) => fail(&format!("{clang} cannot be run: {error}")),
    }
}

/// Ends the build script with this message.
pub fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}
