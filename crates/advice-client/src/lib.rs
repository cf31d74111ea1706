//! A blocking client of the advisor's REST interface (`docs/reference/openapi.json`).
//!
//! For programs that must not suffer from a failing advisor: every request has a deadline that covers
//! name resolution, connection and answer, the length of an answer is limited, and every failure is
//! one error with a message of one sentence.
//!
//! ```no_run
//! use fairwind_advice_client::Client;
//!
//! let client = Client::new("http://127.0.0.1:8649")?;
//! let answer = client.advice("192.0.2.7", Some(16_000_000_000))?;
//! println!("{}: {}", answer.advice.available_mbps.unwrap_or(0.0), answer.advice.reason);
//! std::thread::sleep(answer.ask_again_after());
//! # Ok::<(), fairwind_advice_client::ClientError>(())
//! ```

mod access;
mod address;
mod escape;
mod http;
mod unix;

pub use escape::{path_segment, query};
pub use http::{Client, ClientError, DEFAULT_DEADLINE, DEFAULT_URL};
