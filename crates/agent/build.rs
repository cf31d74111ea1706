//! Compiles the programs of `src/bpf/` to eBPF objects that are embedded in the library.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for name in ["agent", "host"] {
        let source = format!("src/bpf/{name}.bpf.c");
        let object = out.join(format!("{name}.bpf.o"));
        fairwind_bpf_build::compile(source, object, &[fairwind_bpf_build::V3]);
    }
}
