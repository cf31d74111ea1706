//! The worked example of `docs/tutorials/your-own-congestion-control.md`, called natively and loaded into
//! the kernel.

use crate::kernel;
use crate::native::{Control, Parameters, TcpSock};

const SOURCE: &str = include_str!("../../../docs/examples/aimd.c");
const PAGE: &str = include_str!("../../../docs/tutorials/your-own-congestion-control.md");
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/example/aimd.bpf.o"));

unsafe extern "C" {
    static fairwind_example_aimd: Control;
}

fn aimd() -> &'static Control {
    // SAFETY: an immutable static of the C file.
    unsafe { &fairwind_example_aimd }
}

/// AIMD(2, 1/4).
fn parameters() -> Parameters {
    let mut parameters = aimd().default_parameters();
    parameters.set("a", 2).unwrap();
    parameters.set("b", 256).unwrap();
    parameters
}

#[test]
fn the_page_shows_the_file_as_it_is() {
    assert!(PAGE.contains(&format!("```c\n{SOURCE}```\n")));
}

#[test]
fn it_grows_by_a_packets_a_window_and_gives_up_the_share_b() {
    let mut sk = TcpSock {
        is_cwnd_limited: 1,
        ..TcpSock::default()
    };
    aimd().init(&mut sk, &parameters());
    sk.snd_cwnd = 40;
    sk.snd_ssthresh = 20;
    // One packet for 40 / 2 acknowledged, then one for 41 / 2.
    for _ in 0..40 {
        aimd().cong_avoid(&mut sk, 0, 1);
    }
    assert_eq!(sk.snd_cwnd, 42);
    // 42 - 42 / 4, rounded up
    assert_eq!(aimd().ssthresh(&mut sk), 32);
    sk.snd_cwnd = 32;
    assert_eq!(aimd().undo_cwnd(&mut sk), 42);
}

#[test]
fn the_kernel_takes_it() {
    if !fairwind_testing::permitted(kernel::check_requirements()) {
        return;
    }
    let loaded = kernel::load_object(&parameters(), "fw_aimd", OBJECT);
    let loaded = loaded.unwrap_or_else(|error| panic!("{error}"));
    let available = kernel::available().unwrap();
    assert!(available.iter().any(|name| name == loaded.name()));
}
