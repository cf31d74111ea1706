//! The private state of a congestion control per connection, as columns: the fields of the
//! structure named after the congestion control, as described by the BTF of its eBPF object.

use fairwind_bpf::messages;
use libbpf_rs::btf::types::{Array, Int, IntEncoding, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfType};

use crate::event::{STATE_BYTES, State};

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
    offset: usize,
    size: usize,
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
    /// Fields are integers and arrays of them, also in nested structures; pointers, unions and bit
    /// fields are left out.
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
            Layout { btf, fields }.structure(&state, control, 0);
        }
        Ok(ControlState {
            control: control.to_owned(),
            fields,
        })
    }

    /// Whether `kernel_name` is this congestion control: `fw_cubic`, or `fw_cubic_` and a suffix
    /// for the private copy of a run.
    pub fn is_of(&self, kernel_name: &str) -> bool {
        let rest = kernel_name.strip_prefix("fw_");
        let rest = rest.and_then(|name| name.strip_prefix(&self.control[..]));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    }
}

impl StateField {
    /// The field's value; an unsigned value above `i64::MAX` becomes `i64::MAX`.
    pub fn value(&self, state: &State) -> i64 {
        let mut bytes = [0; 8];
        bytes[..self.size].copy_from_slice(&state[self.offset..self.offset + self.size]);
        let value = u64::from_ne_bytes(bytes);
        let unused = u64::BITS - 8 * self.size as u32;
        if self.is_signed {
            ((value << unused) as i64) >> unused
        } else {
            i64::try_from(value).unwrap_or(i64::MAX)
        }
    }
}

/// Where fields are described, and those found so far.
struct Layout<'a, 'btf> {
    btf: &'a Btf<'btf>,
    fields: &'a mut Vec<StateField>,
}

impl Layout<'_, '_> {
    fn structure(&mut self, state: &Struct<'_>, prefix: &str, start: usize) {
        for member in state.iter() {
            let (Some(name), MemberAttr::Normal { offset }) = (member.name, member.attr) else {
                continue;
            };
            if let Some(ty) = self.btf.type_by_id::<BtfType<'_>>(member.ty) {
                let column = format!("{prefix}_{}", name.to_string_lossy());
                self.field(ty, &column, start + offset as usize / 8);
            }
        }
    }

    fn field(&mut self, ty: BtfType<'_>, column: &str, offset: usize) {
        let ty = ty.skip_mods_and_typedefs();
        if let Ok(inner) = Struct::try_from(ty) {
            self.structure(&inner, column, offset);
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
            let size = usize::from(integer.bits) / 8;
            if matches!(size, 1 | 2 | 4 | 8) && offset + size <= STATE_BYTES {
                self.fields.push(StateField {
                    column: column.to_owned(),
                    offset,
                    size,
                    is_signed: matches!(integer.encoding, IntEncoding::Signed),
                });
            }
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
    fn a_control_is_known_by_its_name_and_those_of_its_copies() {
        let state = ControlState {
            control: "reno".into(),
            fields: Vec::new(),
        };
        assert!(state.is_of("fw_reno"));
        assert!(state.is_of("fw_reno_1a2b"));
        assert!(!state.is_of("reno"));
        assert!(!state.is_of("fw_renown"));
    }
}
