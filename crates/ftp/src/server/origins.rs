//! What the server remembers of origins, however many there are.

use std::collections::HashMap;

use fairwind_origin::Origin;

/// Most origins remembered.
pub(super) const MOST: usize = 4_096;

/// Makes room for an origin that is not remembered yet: forgets those that are `over`, or else the one with the least
/// `weight`.
pub(super) fn make_room<V, W: Ord>(
    origins: &mut HashMap<Origin, V>,
    newcomer: Origin,
    is_over: impl Fn(&V) -> bool,
    weight: impl Fn(&V) -> W,
) {
    if origins.len() < MOST || origins.contains_key(&newcomer) {
        return;
    }
    origins.retain(|_, known| !is_over(known));
    if origins.len() < MOST {
        return;
    }
    let least = origins.iter().min_by_key(|(_, known)| weight(known));
    if let Some(least) = least.map(|(origin, _)| *origin) {
        origins.remove(&least);
    }
}
