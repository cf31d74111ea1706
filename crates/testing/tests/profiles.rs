//! The workspace's profile for tests.

use std::fs;
use std::path::Path;

#[test]
fn every_crate_of_ours_keeps_its_checks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let manifest = fs::read_to_string(manifest).unwrap();
        let name = manifest
            .lines()
            .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
            .unwrap();
        let (_, profile) = workspace
            .split_once(&format!("[profile.dev.package.{name}]\n"))
            .unwrap_or_else(|| panic!("{name} has no profile"));
        let profile = profile.split("\n[").next().unwrap();
        assert!(profile.contains("debug-assertions = true"), "{name}");
        assert!(profile.contains("overflow-checks = true"), "{name}");
    }
}
