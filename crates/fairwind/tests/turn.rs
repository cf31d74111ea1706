//! Tests of the lab take turns: they measure, and congestion controls that one loads are visible to all.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fairwind_lab::privilege;
use fairwind_testing::or_skip;

/// This test's turn, or none if the privileges for the lab are missing.
pub(crate) fn in_the_lab() -> Option<MutexGuard<'static, ()>> {
    or_skip(privilege::check())?;
    Some(turn())
}

/// This test's turn.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
