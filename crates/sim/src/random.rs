//! Seeds for the parts of a run: each part draws from a generator of its own, so that what one
//! draws does not depend on what another does.

/// The seed of part `index` of a `kind` in a run with `seed` (SplitMix64 over an FNV-1a hash).
pub fn seed_for(seed: u64, kind: &str, index: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = kind
        .bytes()
        .chain(seed.to_le_bytes())
        .chain((index as u64).to_le_bytes());
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
