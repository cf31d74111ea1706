//! Compiles the programs of `src/bpf/` to eBPF objects that are embedded in the library.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../../cc/include");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for program in ["reno", "cubic", "tap"] {
        let source = format!("src/bpf/{program}.bpf.c");
        let object = out.join(format!("{program}.bpf.o"));
        let options = [fairwind_bpf_build::V3, "-I../../cc/include"];
        fairwind_bpf_build::compile(source, object, &options);
    }
}
