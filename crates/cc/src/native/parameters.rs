//! Values for the parameters of a control.

use super::control::Control;
use super::parameter::Parameter;
use super::socket::{PARAMETERS_MAX, TcpSock};

/// Values for the parameters of one control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    control: &'static Control,
    values: [u32; PARAMETERS_MAX],
}

impl Control {
    /// The parameters at their defaults.
    pub fn default_parameters(&'static self) -> Parameters {
        let mut values = [0; PARAMETERS_MAX];
        for (value, parameter) in values.iter_mut().zip(self.parameters()) {
            *value = parameter.default_value();
        }
        Parameters::with_values(self, values)
    }

    /// Attaches the control to a connection that is not established yet: clears the control's state and
    /// sets the parameters (`tcp_assign_congestion_control`). As in the kernel, hooks for the
    /// acknowledgement of the SYN come before [`initialize`](Control::initialize).
    pub fn assign(&self, sk: &mut TcpSock, parameters: &Parameters) {
        debug_assert_eq!(self, parameters.control);
        sk.icsk_ca_priv = Default::default();
        sk.parameters = parameters.values;
        sk.cc_shared.choose(parameters);
    }

    /// Calls the hook `init`: the connection is established (`tcp_init_congestion_control`).
    pub fn initialize(&self, sk: &mut TcpSock) {
        self.call_init(sk);
    }

    /// Attaches the control to an established connection: [`assign`](Control::assign) and
    /// [`initialize`](Control::initialize).
    pub fn init(&self, sk: &mut TcpSock, parameters: &Parameters) {
        self.assign(sk, parameters);
        self.initialize(sk);
    }
}

impl Parameters {
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
        let (min, max) = (parameter.min(), parameter.max());
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
    #[error("`{name}` is {}; it must be {} to {}", in_unit(*.value, .unit), in_unit(i64::from(*.min), .unit), in_unit(i64::from(*.max), .unit))]
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

/// `20 us`, `717/1024`, `3`.
fn in_unit(value: i64, unit: &str) -> String {
    match unit {
        "1" | "on/off" => value.to_string(),
        _ => match unit.strip_prefix("1/") {
            Some(parts) => format!("{value}/{parts}"),
            None => format!("{value} {unit}"),
        },
    }
}

fn known_names(known: &[&str]) -> String {
    if known.is_empty() {
        "it has none".to_owned()
    } else {
        format!("it has {}", known.join(", "))
    }
}
