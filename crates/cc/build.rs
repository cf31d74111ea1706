//! Compiles every congestion control in `cc/` twice, for the simulator and to an eBPF object for the
//! kernel, and generates their lists in Rust. A new control only needs a new file there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Exports the layout of the C structures to the tests.
const LAYOUT: &str = "src/native/layout.c";

/// What the checks of undefined behaviour call.
const UNDEFINED: &str = "src/native/undefined.c";

/// Faults for the test of these checks.
const FAULTY: &str = "src/native/faulty.c";

/// Names sanitizers for the C of the controls: `undefined`, `address`, or both with a comma between. Builds for tests
/// always have the first.
const SANITIZE: &str = "FAIRWIND_SANITIZE";

/// The example of docs/tutorials/your-own-congestion-control.md, compiled for its test.
const EXAMPLE: &str = "../../docs/examples/aimd.c";

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = manifest.join("../../cc");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={}", folder.display());
    println!("cargo::rerun-if-changed={LAYOUT}");
    println!("cargo::rerun-if-changed={EXAMPLE}");
    println!("cargo::rerun-if-changed={UNDEFINED}");
    println!("cargo::rerun-if-changed={FAULTY}");
    println!("cargo::rerun-if-env-changed={SANITIZE}");

    let controls = controls(&folder);
    let example = ControlFile::new(manifest.join(EXAMPLE));
    let sanitizers = Sanitizers::wanted();
    let mut sources: Vec<&Path> = controls.iter().map(|control| &*control.path).collect();
    sources.push(Path::new(LAYOUT));
    native(&folder, sanitizers)
        .files(sources)
        .compile("fairwind_cc_controls");
    for control in &controls {
        compile_ebpf(control, &out);
    }
    // The symbol is renamed because readers who follow the page have a copy of the example in `cc/`.
    native(&folder, sanitizers)
        .file(&example.path)
        .define("fairwind_cc_aimd", "fairwind_example_aimd")
        .compile("fairwind_cc_example");
    native(&folder, sanitizers)
        .file(FAULTY)
        .compile("fairwind_cc_faulty");
    // Last, as those above refer to it.
    native(&folder, Sanitizers::default())
        .file(UNDEFINED)
        .compile("fairwind_cc_undefined");
    if sanitizers.address {
        println!("cargo::rustc-link-lib=dylib=asan");
    }
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

/// Checks that are compiled into the C of the controls.
#[derive(Clone, Copy, Default)]
struct Sanitizers {
    /// Arithmetic, shifts, indexes and pointers whose behaviour C does not define.
    undefined: bool,
    /// Memory that is not the control's, by a library of the compiler.
    address: bool,
}

impl Sanitizers {
    /// Those of this build.
    fn wanted() -> Sanitizers {
        let mut sanitizers = Sanitizers {
            undefined: env::var("PROFILE").is_ok_and(|profile| profile == "debug"),
            address: false,
        };
        let named = env::var(SANITIZE).unwrap_or_default();
        for name in named.split(',').filter(|name| !name.is_empty()) {
            match name {
                "undefined" => sanitizers.undefined = true,
                "address" => sanitizers.address = true,
                other => fairwind_bpf_build::fail(&format!(
                    "{SANITIZE} is \"{named}\", and \"{other}\" is none of `undefined` and `address`"
                )),
            }
        }
        sanitizers
    }
}

fn native(folder: &Path, sanitizers: Sanitizers) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .include(folder.join("include"))
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .warnings_into_errors(true);
    if sanitizers.undefined {
        build
            .flag("-fsanitize=undefined")
            .flag("-fno-sanitize-recover=undefined");
    }
    if sanitizers.address {
        build
            .flag("-fsanitize=address")
            .flag("-fno-omit-frame-pointer");
    }
    build
}

fn compile_ebpf(control: &ControlFile, out: &Path) {
    let object = out.join(format!("{}.bpf.o", control.name));
    fairwind_bpf_build::compile(&control.path, object, &[fairwind_bpf_build::V3]);
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
