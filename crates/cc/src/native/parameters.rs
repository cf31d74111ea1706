//! Parameters of a control: their descriptions and values.

use std::ffi::{CStr, c_char};
use std::fmt;

use super::control::Control;
use super::socket::PARAMETERS_MAX;

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

/// Values for the parameters of one control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    control: &'static Control,
    values: [u32; PARAMETERS_MAX],
}

impl Parameters {
    pub(super) fn defaults(control: &'static Control) -> Parameters {
        let mut values = [0; PARAMETERS_MAX];
        for (value, parameter) in values.iter_mut().zip(control.parameters()) {
            *value = parameter.default;
        }
        Parameters { control, values }
    }

    /// Parameters with these values, in the order of [`Control::parameters`].
    pub(crate) fn with_values(
        control: &'static Control,
        values: [u32; PARAMETERS_MAX],
    ) -> Parameters {
        Parameters { control, values }
    }

    /// The control that they belong to.
    pub fn control(&self) -> &'static Control {
        self.control
    }

    /// The values in the order of [`Control::parameters`], followed by zeros.
    pub fn values(&self) -> &[u32; PARAMETERS_MAX] {
        &self.values
    }

    /// The value of a parameter, in its unit.
    ///
    /// # Errors
    ///
    /// If the control has no such parameter.
    pub fn get(&self, name: &str) -> Result<u32, ParameterError> {
        Ok(self.values[self.index(name)?])
    }

    /// Sets a parameter, in its unit.
    ///
    /// # Errors
    ///
    /// If the control has no such parameter, or the value is out of its range.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), ParameterError> {
        let index = self.index(name)?;
        let parameter = &self.control.parameters()[index];
        let (min, max) = (parameter.min, parameter.max);
        self.values[index] = u32::try_from(value)
            .ok()
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| ParameterError::OutOfRange {
                name: name.to_owned(),
                value,
                unit: parameter.unit(),
                min,
                max,
            })?;
        Ok(())
    }

    fn index(&self, name: &str) -> Result<usize, ParameterError> {
        self.control
            .parameters()
            .iter()
            .position(|parameter| parameter.name() == name)
            .ok_or_else(|| ParameterError::Unknown {
                control: self.control.name(),
                name: name.to_owned(),
                known: self
                    .control
                    .parameters()
                    .iter()
                    .map(Parameter::name)
                    .collect(),
            })
    }
}

/// Why a control does not accept a parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// The control has no parameter of this name.
    #[error("`{control}` has no parameter `{name}`; {}", known_names(.known))]
    Unknown {
        /// The name of the control.
        control: &'static str,
        /// The requested name.
        name: String,
        /// The names of its parameters.
        known: Vec<&'static str>,
    },
    /// The value is not in the parameter's range.
    #[error("`{name}` is {value} {unit}; it must be {min} to {max} {unit}")]
    OutOfRange {
        /// The name of the parameter.
        name: String,
        /// The requested value.
        value: i64,
        /// The parameter's unit.
        unit: &'static str,
        /// The smallest valid value.
        min: u32,
        /// The largest valid value.
        max: u32,
    },
}

fn known_names(known: &[&str]) -> String {
    if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    }
}

/// A string literal of a C file.
pub(super) fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: all pointers that CC_CONTROL and CC_PARAMETERS make are to string literals.
    unsafe { CStr::from_ptr(pointer) }
        .to_str()
        .expect("texts in cc/ are UTF-8")
}
