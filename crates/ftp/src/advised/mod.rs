//! Advice applied to live data connections.
