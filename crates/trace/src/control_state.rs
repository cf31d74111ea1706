//! The private state of a congestion control per connection, as columns: the fields of the
//! structure named after the congestion control, as described by the BTF of its eBPF object.

use fairwind_bpf::messages;
use libbpf_rs::btf::types::{Array, Composite, Int, IntEncoding, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType};

use crate::event::{STATE_BYTES, State};

/// Bytes of the longest name that a congestion control can have in the kernel.
const NAME_MAX: usize = 15;

/// The fields of a congestion control's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlState {
    /// The congestion control, without the prefix of its name in the kernel.
    pub control: String,
    /// In the order of the structure.
    pub fields: Vec<StateField>,
}

/// An integer in a congestion control's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateField {
    /// The column's name: congestion control and field, such as `cubic_w_max`.
    pub column: String,
    /// The bytes that it is in.
    offset: usize,
    size: usize,
    /// Its lowest bit in these bytes, and how many there are: all, unless it is a bit field.
    lowest: u32,
    bits: u32,
    is_signed: bool,
}

/// An eBPF object could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the eBPF object of `{control}` cannot be read: {source}")]
pub struct StateError {
    control: String,
    source: libbpf_rs::Error,
}

impl ControlState {
    /// Reads the state's fields from the eBPF object of a congestion control; without fields if it
    /// has no state.
    ///
    /// Fields are integers, bit fields, and arrays of integers, also in nested structures and, all of
    /// them, in unions; pointers are left out.
    ///
    /// # Errors
    ///
    /// Fails if `object` is not an eBPF object.
    pub fn of_object(control: &str, object: &[u8]) -> Result<ControlState, StateError> {
        let wrong = |source| StateError {
            control: control.to_owned(),
            source,
        };
        // libbpf would print warnings about sections that it does not load.
        let btf = messages::discarded(|| Btf::from_raw(control, object)).map_err(wrong)?;
        let mut fields = Vec::new();
        if let Some(btf) = &btf
            && let Some(state) = btf.type_by_name::<Struct<'_>>(control)
        {
            let fields = &mut fields;
            Layout { btf, fields }.members(&state.into(), control, 0);
        }
        Ok(ControlState {
            control: control.to_owned(),
            fields,
        })
    }

    /// The one of `states` that is of the congestion control `kernel_name`: `fw_cubic`, or for a
    /// private copy of a run `fw_cubic_` and a suffix, before which the name is cut where it would be
    /// too long for the kernel.
    pub fn position(states: &[ControlState], kernel_name: &str) -> Option<usize> {
        let name = kernel_name.strip_prefix("fw_")?;
        if let Some(exactly) = states.iter().position(|state| state.control == name) {
            return Some(exactly);
        }
        let (copied, _) = name.rsplit_once('_')?;
        states.iter().position(|state| {
            state.control == copied
                || (kernel_name.len() == NAME_MAX && state.control.starts_with(copied))
        })
    }
}

impl StateField {
    /// The field's value; an unsigned value above `i64::MAX` becomes `i64::MAX`.
    pub fn value(&self, state: &State) -> i64 {
        let mut bytes = [0; 8];
        bytes[..self.size].copy_from_slice(&state[self.offset..self.offset + self.size]);
        let unused = u64::BITS - self.bits;
        let value = u64::from_ne_bytes(bytes) << (unused - self.lowest);
        if self.is_signed {
            (value as i64) >> unused
        } else {
            i64::try_from(value >> unused).unwrap_or(i64::MAX)
        }
    }
}

/// Where fields are described, and those found so far.
struct Layout<'a, 'btf> {
    btf: &'a Btf<'btf>,
    fields: &'a mut Vec<StateField>,
}

impl Layout<'_, '_> {
    /// The members of a structure or union that begins at this byte. Those of a nameless one in it are its own.
    fn members(&mut self, outer: &Composite<'_>, prefix: &str, start: usize) {
        for member in outer.iter() {
            let Some(ty) = self.btf.type_by_id::<BtfType<'_>>(member.ty) else {
                continue;
            };
            let column = match member.name.filter(|name| !name.is_empty()) {
                Some(name) => format!("{prefix}_{}", name.to_string_lossy()),
                None => prefix.to_owned(),
            };
            match member.attr {
                MemberAttr::Normal { offset } => {
                    self.field(ty, &column, start + offset as usize / 8);
                }
                MemberAttr::BitField { size, offset } => {
                    if let Ok(integer) = Int::try_from(ty.skip_mods_and_typedefs()) {
                        self.integer(&integer, &column, start * 8 + offset as usize, size.into());
                    }
                }
            }
        }
    }

    fn field(&mut self, ty: BtfType<'_>, column: &str, offset: usize) {
        let ty = ty.skip_mods_and_typedefs();
        if let Ok(inner) = Composite::try_from(ty) {
            self.members(&inner, column, offset);
        } else if let Ok(array) = Array::try_from(ty) {
            let first = self.fields.len();
            self.field(array.contained_type(), &format!("{column}_0"), offset);
            // An array of one integer per element: repeat the first element's column for the others.
            if let [integer] = &self.fields[first..] {
                let integer = integer.clone();
                self.fields
                    .extend((1..array.capacity()).map(|index| StateField {
                        column: format!("{column}_{index}"),
                        offset: offset + index * integer.size,
                        ..integer
                    }));
            }
        } else if let Ok(integer) = Int::try_from(ty) {
            self.integer(&integer, column, 8 * offset, integer.bits.into());
        }
    }

    /// `first` is its lowest bit in the state, on a little-endian machine.
    fn integer(&mut self, integer: &Int<'_>, column: &str, first: usize, bits: u32) {
        let (offset, lowest) = (first / 8, (first % 8) as u32);
        let size = (lowest + bits).div_ceil(8) as usize;
        if size <= 8 && offset + size <= STATE_BYTES {
            self.fields.push(StateField {
                column: column.to_owned(),
                offset,
                size,
                lowest,
                bits,
                is_signed: matches!(integer.encoding, IntEncoding::Signed),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_its_bytes() {
        let field = |offset, size, is_signed| StateField {
            column: String::new(),
            offset,
            size,
            lowest: 0,
            bits: 8 * size as u32,
            is_signed,
        };
        let mut state = [0; STATE_BYTES];
        state[8..12].copy_from_slice(&(-2i32).to_ne_bytes());
        assert_eq!(field(8, 4, true).value(&state), -2);
        assert_eq!(field(8, 4, false).value(&state), 0xffff_fffe);
        state[96..].fill(0xff);
        assert_eq!(field(96, 8, false).value(&state), i64::MAX);
        assert_eq!(field(96, 8, true).value(&state), -1);
    }

    #[test]
    fn a_bit_field_is_its_bits() {
        let field = |offset, size, is_signed, (lowest, bits)| StateField {
            column: String::new(),
            offset,
            size,
            lowest,
            bits,
            is_signed,
        };
        let mut state = [0; STATE_BYTES];
        state[3] = 0b1011_0100;
        state[4] = 0b0000_0001;
        assert_eq!(field(3, 1, false, (2, 3)).value(&state), 0b101);
        assert_eq!(field(3, 1, true, (2, 3)).value(&state), -3);
        assert_eq!(field(3, 2, false, (7, 2)).value(&state), 0b11);
    }

    #[test]
    fn a_control_is_known_by_its_name_and_those_of_its_copies() {
        let states = ["imtcp", "imtcp_bg", "fairwind", "reno"].map(|control| ControlState {
            control: control.into(),
            fields: Vec::new(),
        });
        let control = |kernel_name: &str| {
            let at = ControlState::position(&states, kernel_name)?;
            Some(&states[at].control[..])
        };
        assert_eq!(control("fw_reno"), Some("reno"));
        assert_eq!(control("fw_reno_1a2b"), Some("reno"));
        assert_eq!(control("fw_imtcp"), Some("imtcp"));
        assert_eq!(control("fw_imtcp_bg"), Some("imtcp_bg"));
        assert_eq!(control("fw_imtcp_1a2b"), Some("imtcp"));
        assert_eq!(control("fw_imtcp_b_1a2b"), Some("imtcp_bg"));
        assert_eq!(control("fw_fairwin_1a2b"), Some("fairwind"));
        assert_eq!(control("reno"), None);
        assert_eq!(control("fw_renown"), None);
        assert_eq!(control("fw_re_1a2b"), None);
    }
}
