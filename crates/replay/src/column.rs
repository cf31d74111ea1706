//! A compact encoding for tables of numbers: column by column, each number as its difference from
//! the one above it, in as many groups of seven bits as it needs.

/// Appends a number; small ones of either sign are short.
pub(crate) fn put(out: &mut Vec<u8>, number: i64) {
    // Zigzag: 0, -1, 1, -2 become 0, 1, 2, 3.
    let mut rest = (number << 1 ^ number >> 63) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Takes a number from the front; `None` if it is incomplete.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = bytes.split_first()?;
        *bytes = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
    None
}

/// Appends a table.
pub(crate) fn put_table<const N: usize>(out: &mut Vec<u8>, rows: &[[i64; N]]) {
    put(out, rows.len() as i64);
    for column in 0..N {
        let mut above = 0i64;
        for row in rows {
            put(out, row[column].wrapping_sub(above));
            above = row[column];
        }
    }
}

/// Takes a table from the front; `None` if it is incomplete.
pub(crate) fn take_table<const N: usize>(bytes: &mut &[u8]) -> Option<Vec<[i64; N]>> {
    let len = usize::try_from(take(bytes)?).ok()?;
    // Each number takes at least one byte.
    if len.checked_mul(N)? > bytes.len() {
        return None;
    }
    let mut rows = vec![[0; N]; len];
    for column in 0..N {
        let mut above = 0i64;
        for row in &mut rows {
            above = above.wrapping_add(take(bytes)?);
            row[column] = above;
        }
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_either_sign_come_back() {
        for (number, len) in [
            (0, 1),
            (-64, 1),
            (63, 1),
            (64, 2),
            (-8192, 2),
            (8192, 3),
            (i64::MAX, 10),
            (i64::MIN, 10),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            assert_eq!(bytes.len(), len, "{number}");
            assert_eq!(take(&mut &*bytes), Some(number));
            assert_eq!(take(&mut &bytes[..len - 1]), None);
        }
    }

    #[test]
    fn a_number_of_too_many_groups_is_none() {
        assert_eq!(take(&mut &[0x80; 11][..]), None);
    }

    #[test]
    fn a_table_comes_back_and_a_cut_one_does_not() {
        let rows = [[1, i64::MAX], [3, i64::MIN], [2, 5]];
        let mut bytes = Vec::new();
        put_table(&mut bytes, &rows);
        assert_eq!(take_table(&mut &*bytes), Some(rows.to_vec()));
        assert_eq!(take_table::<2>(&mut &bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn a_table_that_claims_more_rows_than_there_are_bytes_is_none() {
        let mut bytes = Vec::new();
        put(&mut bytes, i64::MAX);
        assert_eq!(take_table::<2>(&mut &*bytes), None);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn encoded(rows: &[[i64; 3]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_table(&mut bytes, rows);
        bytes
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_table_comes_back_and_leaves_what_is_behind_it(
            rows in vec(any::<[i64; 3]>(), 0..40), behind: Vec<u8>
        ) {
            let bytes = [encoded(&rows), behind.clone()].concat();
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_table::<3>(&mut rest), Some(rows));
            prop_assert_eq!(rest, behind);
        }

        #[test]
        fn a_table_takes_no_more_room_than_its_bytes_justify(
            bytes in damaged(&[encoded(&[[1, i64::MAX, 5], [3, i64::MIN, 5], [2, 5, 5]])])
        ) {
            if let Some(rows) = take_table::<3>(&mut bytes.as_slice()) {
                prop_assert!(rows.len() * 3 <= bytes.len());
                prop_assert_eq!(take_table::<3>(&mut encoded(&rows).as_slice()), Some(rows));
            }
        }
    }
}
