//! Values as columns of 64-bit integers hold them.

use super::CongestionState;

/// A value of an instrument.
pub(crate) trait Value: Copy {
    /// Whether it may be missing.
    const OPTIONAL: bool;

    /// What a column holds for it; `None` if it is missing.
    fn to_column(self) -> Option<i64>;

    /// The value that a column holds. What does not fit is the nearest that does; what may not be
    /// missing is 0 if it is.
    fn from_column(column: Option<i64>) -> Self;
}

impl Value for u64 {
    const OPTIONAL: bool = false;

    fn to_column(self) -> Option<i64> {
        Some(i64::try_from(self).unwrap_or(i64::MAX))
    }

    fn from_column(column: Option<i64>) -> u64 {
        column.unwrap_or(0).max(0) as u64
    }
}

impl Value for u32 {
    const OPTIONAL: bool = false;

    fn to_column(self) -> Option<i64> {
        Some(i64::from(self))
    }

    fn from_column(column: Option<i64>) -> u32 {
        column.unwrap_or(0).clamp(0, i64::from(u32::MAX)) as u32
    }
}

impl Value for CongestionState {
    const OPTIONAL: bool = false;

    fn to_column(self) -> Option<i64> {
        Some(self as i64)
    }

    fn from_column(column: Option<i64>) -> CongestionState {
        let number = column.and_then(|number| u8::try_from(number).ok());
        CongestionState::numbered(number.unwrap_or(0))
    }
}

impl<T: Value> Value for Option<T> {
    const OPTIONAL: bool = true;

    fn to_column(self) -> Option<i64> {
        self.and_then(T::to_column)
    }

    fn from_column(column: Option<i64>) -> Option<T> {
        column.map(|value| T::from_column(Some(value)))
    }
}
