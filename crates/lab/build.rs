//! Compiles the filter in `src/bpf/` to an eBPF object, which the library embeds.

use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

const SOURCE: &str = "src/bpf/uplink.bpf.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Werror", "-c", SOURCE, "-o"])
        .arg(out.join("uplink.bpf.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => fail(&format!(
            "{clang} does not compile {SOURCE} to eBPF; its messages are above"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => fail(&format!(
            "{clang} is not there, and the lab's filter needs it to become an eBPF object: install \
             the package clang (Debian, Ubuntu: apt install clang), or name another in CLANG"
        )),
        Err(error) => fail(&format!("{clang} cannot be run: {error}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}
