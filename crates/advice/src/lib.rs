//! Advice from the history of a path: which mode a transfer should have (with congestion control, without, in
//! the background, at a rate), how large its buffers should be, and when to ask again.
//!
//! After Akarapu, *Evaluation of Dynamic TCP Congestion Control Scheme in the ENABLE service* (2002),
//! section 3.3, with the modes `background` and `rate` beside the thesis' two. [`advise`] is a function of the history, the request and the time; nothing here does
//! I/O or reads a clock. The thesis' [`linear`] model and a daily and weekly [`profile`] are the two
//! models that forecast; [`backtest`](mod@backtest) evaluates them on a recorded series, and [`generate`]
//! produces synthetic series. [`wire`] has what an advisor and its clients tell each other, and
//! [`transfer`] what a reported transfer tells about its path.
//!
//! Mbit/s are 10^6 bit/s. Instants are UTC; days and times of day are in the path's time zone.

pub mod advice;
pub mod backtest;
pub mod forecast;
pub mod generate;
pub mod history;
pub mod linear;
pub mod mode;
pub mod profile;
pub mod sample;
pub mod settings;
pub mod transfer;
pub mod watch;
pub mod wire;

mod calendar;

pub use advice::{Advice, Request, advise};
pub use backtest::{Following, Report, backtest};
pub use forecast::{Forecast, NoForecast};
pub use generate::Curve;
pub use history::{History, Hop, Role};
pub use mode::Mode;
pub use sample::{LARGEST_MBPS, Refusal, Refusals, Sample, Samples};
pub use settings::{Buffers, Change, Controls, HistorySet, ModeRule, ModelKind, Settings};
pub use watch::deciding;
