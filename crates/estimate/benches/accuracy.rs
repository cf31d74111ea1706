//! Estimates beside the truth by the bottleneck's counters, in the simulator; with the word `peers`,
//! beside those of other methods.

#[path = "../tests/cells/mod.rs"]
mod cells;
mod peers;

fn main() {
    let words = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "peers") {
        peers::table(cells::Half::of(&words));
    } else {
        cells::table(&words);
    }
}
