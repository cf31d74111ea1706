//! Compiles C to eBPF objects, for build scripts.

use std::env;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// The instructions of Linux 5.12 and newer: atomic operations among them.
pub const V3: &str = "-mcpu=v3";

/// Compiles `source` to an eBPF object in the file `object`, with more `options` for clang. The variable
/// `CLANG` names another clang.
///
/// Ends the build script with a message if there is no clang or if it fails.
pub fn compile(source: impl AsRef<Path>, object: impl AsRef<Path>, options: &[&str]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let name = source.as_ref().display();
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-O2", "-g", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
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
