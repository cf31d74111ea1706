//! Hands on the place of libbpf's headers, which eBPF programs include, to the build scripts that compile them.

fn main() {
    let include = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    println!("cargo::metadata=include={include}");
}
