//! The description of a parameter of a control.

use std::ffi::{CStr, c_char};
use std::fmt;

/// A row of a control's `CC_PARAMETERS`.
#[repr(C)]
pub struct Parameter {
    name: *const c_char,
    unit: *const c_char,
    description: *const c_char,
    default: u32,
    min: u32,
    max: u32,
}

// SAFETY: the pointers refer to string literals of the C file, which are never written.
unsafe impl Sync for Parameter {}

impl Parameter {
    /// The name, an identifier.
    pub fn name(&self) -> &'static str {
        text(self.name)
    }

    /// The unit of the value: `us`, `packets`, `1/1024`, `on/off` or `1`.
    pub fn unit(&self) -> &'static str {
        text(self.unit)
    }

    /// A short description.
    pub fn description(&self) -> &'static str {
        text(self.description)
    }

    /// The default value.
    pub fn default_value(&self) -> u32 {
        self.default
    }

    /// The smallest valid value.
    pub fn min(&self) -> u32 {
        self.min
    }

    /// The largest valid value.
    pub fn max(&self) -> u32 {
        self.max
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameter")
            .field("name", &self.name())
            .field("unit", &self.unit())
            .field("default", &self.default)
            .field("min", &self.min)
            .field("max", &self.max)
            .finish()
    }
}

/// A string literal of a C file.
pub(super) fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: all pointers that CC_CONTROL and CC_PARAMETERS make are to string literals.
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .expect("texts in cc/ are UTF-8")
}
