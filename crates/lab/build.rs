//! Compiles the filter in `src/bpf/` to an eBPF object, which the library embeds.

use std::env;
use std::path::PathBuf;

const SOURCE: &str = "src/bpf/uplink.bpf.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let object = out.join("uplink.bpf.o");
    fairwind_bpf_build::compile(SOURCE, object, &[fairwind_bpf_build::V3]);
}
