//! Estimates beside the truth by the bottleneck's counters, in the simulator.

fn main() {
    cells::table(std::env::args().skip(1).filter(|a| !a.starts_with("--")));
}

#[path = "../tests/cells/mod.rs"]
mod cells;
