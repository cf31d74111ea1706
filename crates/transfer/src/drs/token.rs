//! The token by which the two hosts of a data connection recognise the right-sizing connection beside it.

use std::fmt;
use std::io;
use std::str::FromStr;

/// 128 unguessable bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token(u128);

impl Token {
    /// Draws a new token.
    ///
    /// # Errors
    /// If the kernel provides no random bytes.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    /// Hides the token, which belongs in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl FromStr for Token {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_32_hexadecimal_digits() {
        let text = "00112233445566778899aabbccddeeff";
        assert_eq!(text.parse::<Token>().unwrap().to_string(), text);
        for wrong in [
            "",
            "0011",
            "+0112233445566778899aabbccddeeff",
            "00112233445566778899aabbccddeefg",
            "00112233445566778899aabbccddeeff0",
        ] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
        assert_ne!(Token::random().unwrap(), Token::random().unwrap());
    }
}
