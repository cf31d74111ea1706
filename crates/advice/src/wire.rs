//! What an advisor and its clients tell each other: JSON over REST, described in
//! `docs/reference/openapi.json`.

mod answer;
mod report;

pub use answer::Answer;
pub use report::{Direction, Limited, TransferReport};
