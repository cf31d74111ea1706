//! Compiles every control of `cc/` for the simulator and lists them for Rust.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let folder = manifest.join("../../cc");
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={}", folder.display());

    let controls = controls(&folder);
    compile_native(&folder, &controls);
    fs::write(out.join("controls.rs"), list(&controls)).expect("OUT_DIR can be written");
}

struct ControlFile {
    name: String,
    path: PathBuf,
}

/// Every `cc/*.c`, by name.
fn controls(folder: &Path) -> Vec<ControlFile> {
    let mut controls: Vec<ControlFile> = fs::read_dir(folder)
        .expect("cc/ can be read")
        .map(|entry| entry.expect("cc/ can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .map(|path| ControlFile {
            name: name(&path),
            path,
        })
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
    if !text.contains(&format!("CC_CONTROL({name},")) {
        fail(&format!(
            "{} must end with CC_CONTROL({name}, ...): a control has its file's name",
            path.display()
        ));
    }
    name
}

fn compile_native(folder: &Path, controls: &[ControlFile]) {
    cc::Build::new()
        .files(controls.iter().map(|control| &control.path))
        .include(folder.join("include"))
        .std("gnu11")
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .flag("-Wno-unused-parameter")
        .warnings_into_errors(true)
        .compile("fairwind_cc_controls");
}

/// Rust declarations of the symbols that `CC_CONTROL` makes, and the table of all.
fn list(controls: &[ControlFile]) -> String {
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

fn fail(message: &str) -> ! {
    println!("cargo::error={message}");
    std::process::exit(1);
}
