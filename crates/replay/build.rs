//! Compiles the programs of `src/bpf/` to eBPF objects that are embedded in the library.

use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../../cc/include");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for program in ["reno", "cubic", "tap"] {
        let source = format!("src/bpf/{program}.bpf.c");
        compile(&source, out.join(format!("{program}.bpf.o")));
    }
}

fn compile(source: &str, object: PathBuf) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11"])
        .args(["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"])
        .args(["-I", "../../cc/include", "-c", source, "-o"])
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => fail(&format!(
            "{clang} does not compile {source} to eBPF; its messages are above"
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => fail(&format!(
            "{clang} is not there, and the recorders need it to become eBPF objects: install the \
             package clang (Debian, Ubuntu: apt install clang), or name another in CLANG"
        )),
        Err(error) => fail(&format!("{clang} cannot be run: {error}")),
    }
}

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}
