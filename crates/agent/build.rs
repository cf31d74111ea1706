//! Compiles the programs of `src/bpf/` to an eBPF object that is embedded in the library.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let object = out.join("agent.bpf.o");
    fairwind_bpf_build::compile("src/bpf/agent.bpf.c", object, &[fairwind_bpf_build::V3]);
}
