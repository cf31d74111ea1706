//! What connections are given, as the kernel's programs have it.

/// Bytes of the longest name of a congestion control in the kernel.
const NAME_MAX: usize = 15;
/// DSCP 1 (RFC 8622), in the bits of the traffic class.
const LOWER_EFFORT: u8 = 1 << 2;

/// `struct action` of `bpf/advice.h`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Encoded<'a> {
    /// The kernel's name of a congestion control.
    pub(crate) control: Option<&'a str>,
    /// Bytes a second.
    pub(crate) max_rate: Option<u32>,
    pub(crate) send_buffer: Option<u32>,
    pub(crate) receive_buffer: Option<u32>,
    pub(crate) is_lower_effort: bool,
    pub(crate) is_forced: bool,
    pub(crate) is_held: bool,
    pub(crate) is_advised: bool,
}

impl Encoded<'_> {
    /// # Panics
    ///
    /// If the name is longer than the kernel's are.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; NAME_MAX + 1];
        let name = self.control.unwrap_or_default().as_bytes();
        assert!(name.len() <= NAME_MAX, "a name of the kernel's");
        bytes[..name.len()].copy_from_slice(name);
        for number in [self.max_rate, self.send_buffer, self.receive_buffer] {
            bytes.extend(number.unwrap_or(0).to_ne_bytes());
        }
        let class = if self.is_lower_effort {
            LOWER_EFFORT
        } else {
            0
        };
        let flags = [self.is_forced, self.is_held, self.is_advised];
        bytes.push(class);
        bytes.extend(flags.map(u8::from));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_in_the_programs_layout() {
        let action = Encoded {
            control: Some("fw_fairwind"),
            max_rate: Some(125_000),
            receive_buffer: Some(4096),
            is_lower_effort: true,
            is_forced: true,
            is_advised: true,
            ..Encoded::default()
        };
        let mut bytes = b"fw_fairwind\0\0\0\0\0".to_vec();
        bytes.extend(125_000u32.to_ne_bytes());
        bytes.extend(0u32.to_ne_bytes());
        bytes.extend(4096u32.to_ne_bytes());
        bytes.extend([4, 1, 0, 1]);
        assert_eq!(action.bytes(), bytes);
        assert_eq!(Encoded::default().bytes(), [0; 32]);
    }
}
