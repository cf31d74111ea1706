//! Compiles every congestion control in `cc/` twice, for the simulator and to an eBPF object for the
//! kernel, and generates their lists in Rust. A new control only needs a new file there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Exports the layout of the C structures to the tests.
const LAYOUT: &str = "src/native/layout.c";

/// The example of docs/tutorials/your-own-congestion-control.md, compiled for its test.
const EXAMPLE: &str = "../../docs/examples/aimd.c";

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = manifest.join("../../cc");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed={LAYOUT}");
    println!("cargo::rerun-if-changed={EXAMPLE}");

    let controls = controls(&folder);
    let example = ControlFile::new(manifest.join(EXAMPLE));
    let mut sources: Vec<&Path> = controls.iter().map(|control| &*control.path).collect();
    sources.push(Path::new(LAYOUT));
    native(&folder)
        .files(sources)
        .compile("fairwind_cc_controls");
    for control in &controls {
        compile_ebpf(control, &out);
    }
    // The symbol is renamed because readers who follow the page have a copy of the example in `cc/`.
    native(&folder)
        .file(&example.path)
        .define("fairwind_cc_aimd", "fairwind_example_aimd")
        .compile("fairwind_cc_example");
    let example_out = out.join("example");
    fs::create_dir_all(&example_out).expect("OUT_DIR can be written");
    compile_ebpf(&example, &example_out);
    fs::write(out.join("controls.rs"), list_native(&controls)).expect("OUT_DIR can be written");
    fs::write(out.join("objects.rs"), list_ebpf(&controls)).expect("OUT_DIR can be written");
}

struct ControlFile {
    name: String,
    path: PathBuf,
}

impl ControlFile {
    fn new(path: PathBuf) -> ControlFile {
        ControlFile {
            name: name(&path),
            path,
        }
    }
}

/// Every `cc/*.c`, sorted by name.
fn controls(folder: &Path) -> Vec<ControlFile> {
    let mut controls: Vec<ControlFile> = fs::read_dir(folder)
        .expect("cc/ can be read")
        .map(|entry| entry.expect("cc/ can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(ControlFile::new)
        .collect();
    controls.sort_by(|a, b| a.name.cmp(&b.name));
    controls
}

fn name(path: &Path) -> String {
    let name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .expect("the name of a control is ASCII")
        .to_owned();
    let text = fs::read_to_string(path).expect("a control can be read");
    if !text.contains(&format!("CC_CONTROL({name}) =")) {
        fairwind_bpf_build::fail(&format!(
            "{} must end with CC_CONTROL({name}) = {{ ... }}: a control has its file's name",
            path.display()
        ));
    }
    name
}

fn native(folder: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .include(folder.join("include"))
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .warnings_into_errors(true);
    build
}

fn compile_ebpf(control: &ControlFile, out: &Path) {
    let object = out.join(format!("{}.bpf.o", control.name));
    fairwind_bpf_build::compile(&control.path, object, &[]);
}

/// Rust declarations of the symbols that `CC_CONTROL` defines, and a table of them.
fn list_native(controls: &[ControlFile]) -> String {
    let declarations: String = controls
        .iter()
        .map(|control| format!("    static fairwind_cc_{}: Control;\n", control.name))
        .collect();
    let rows: String = controls
        .iter()
        .map(|control| {
            format!(
                "    // SAFETY: an immutable static of the C file.\n    \
                 unsafe {{ &fairwind_cc_{} }},\n",
                control.name
            )
        })
        .collect();
    format!(
        "unsafe extern \"C\" {{\n{declarations}}}\n\n\
         static ALL: [&Control; {}] = [\n{rows}];\n",
        controls.len()
    )
}

/// A function that finds the eBPF object by the name of the control.
fn list_ebpf(controls: &[ControlFile]) -> String {
    let rows: String = controls
        .iter()
        .map(|control| {
            format!(
                "        \"{0}\" => fairwind_bpf::object!(\"{0}.bpf.o\"),\n",
                control.name
            )
        })
        .collect();
    format!(
        "fn object(name: &str) -> Option<&'static [u8]> {{\n    Some(match name {{\n{rows}        \
         _ => return None,\n    }})\n}}\n"
    )
}
