//! Compiles the programs of `src/bpf/` to an eBPF object that is embedded in the library, and writes
//! in Rust what a sample holds, which `src/bpf/event.h` defines.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let header = fs::read_to_string("src/bpf/event.h").expect("it belongs to this crate");
    fs::write(out.join("sample.rs"), sample(&header)).expect("cargo made the folder");
    let object = out.join("trace.bpf.o");
    fairwind_bpf_build::compile("src/bpf/trace.bpf.c", object, &[fairwind_bpf_build::V3]);
}

/// `struct sample` of the header: a type and a name per line, and perhaps a comment.
fn sample(header: &str) -> String {
    let (_, fields) = header
        .split_once("struct sample {\n\tstruct event event;\n")
        .expect("a sample begins as every event");
    let (fields, _) = fields.split_once("};").expect("a structure ends");
    let mut sample = String::from(BEGINNING);
    for line in fields.lines() {
        let (field, comment) = line.split_once(';').expect("a field ends with its line");
        let (integer, name) = field.trim().split_once(' ').expect("a type and a name");
        let comment = comment.trim().strip_prefix("/* ");
        if let Some(comment) = comment.and_then(|comment| comment.strip_suffix(" */")) {
            sample += &format!("    /// {comment}\n");
        }
        sample += &format!("    pub {name}: {integer},\n");
    }
    sample + "}\n"
}

const BEGINNING: &str = "\
/// The kernel's values at one moment, with its names and units;
/// [`INSTRUMENTS`](crate::instrument::INSTRUMENTS) derives RFC 4898's from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
#[allow(missing_docs, reason = \"the names are the kernel's\")]
pub struct Sample {
    /// Connection and time.
    pub head: Head,
";
