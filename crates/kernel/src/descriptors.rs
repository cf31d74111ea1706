//! How many descriptors this process may have.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of descriptors to what this process may have at most. If that fails, it stays: fewer connections can
/// be open at once.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}
