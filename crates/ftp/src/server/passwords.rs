//! Passwords and their hashes: Argon2 (RFC 9106), in memory that is reused. From the heap, each check
//! would leave its 19 MiB to the thread that made it, and there are as many threads as sessions.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::{Output, PasswordHash, Salt};
use argon2::{Algorithm, Argon2, Block, Params, Version};
use parking_lot::Mutex;

use super::turns::{Turn, Turns};

/// Passwords checked at once, each in memory of its own.
const TOGETHER: usize = 2;

/// A hash of `password` for the configuration: Argon2id with the crate's defaults, which are OWASP's (19
/// MiB, two passes; RFC 9106's second recommendation is heavier).
///
/// # Errors
/// If the system provides no random numbers.
pub fn hash_password(password: &str) -> io::Result<String> {
    Argon2::default()
        .hash_password(password.as_bytes())
        .map(|hash| hash.to_string())
        .map_err(|error| io::Error::other(error.to_string()))
}

/// The hash of a password, with its parameters.
#[derive(Clone)]
pub(super) struct Secret {
    argon: Argon2<'static>,
    /// Memory that a check takes, KiB.
    cost: usize,
    salt: Salt,
    hash: Output,
}

impl fmt::Debug for Secret {
    /// Hides the hash, which belongs in no log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Parses a PHC string of Argon2.
    ///
    /// # Errors
    /// If it is not one, or lacks salt or hash.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let words = |error: &dyn fmt::Display| error.to_string();
        let phc = PasswordHash::new(text).map_err(|error| words(&error))?;
        let algorithm =
            Algorithm::try_from(phc.algorithm.as_str()).map_err(|error| words(&error))?;
        let version = match phc.version {
            Some(number) => Version::try_from(number).map_err(|error| words(&error))?,
            None => Version::default(),
        };
        let params = Params::try_from(&phc).map_err(|error| words(&error))?;
        Ok(Self {
            cost: params.block_count(),
            argon: Argon2::new(algorithm, version, params),
            salt: phc.salt.ok_or("there is no salt")?,
            hash: phc.hash.ok_or("there is no hash")?,
        })
    }

    /// A secret that nobody knows and that takes as long to check as this one.
    ///
    /// # Errors
    /// If the system provides no random numbers.
    pub(super) fn decoy(&self) -> io::Result<Self> {
        let mut bytes = [0; Output::MAX_LENGTH];
        let bytes = &mut bytes[..self.hash.as_ref().len()];
        rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self {
            hash: Output::new(bytes).map_err(|error| io::Error::other(error.to_string()))?,
            ..self.clone()
        })
    }

    /// Cost of a check: memory, KiB, times the passes over it.
    pub(super) fn work(&self) -> u64 {
        self.cost as u64 * u64::from(self.argon.params().t_cost())
    }

    /// Whether this is the password. Takes about 20 ms and 19 MiB on purpose, if the hash has the
    /// defaults.
    pub(super) fn is(&self, password: &[u8], memory: &mut Memory) -> bool {
        if memory.0.len() < self.cost {
            memory.0.reserve_exact(self.cost - memory.0.len());
            memory.0.resize(self.cost, Block::default());
        }
        let mut bytes = [0; Output::MAX_LENGTH];
        let out = &mut bytes[..self.hash.as_ref().len()];
        let made = self.argon.hash_password_into_with_memory(
            password,
            &self.salt,
            &mut *out,
            memory.0.as_mut_slice(),
        );
        // Outputs are compared in constant time.
        made.is_ok() && Output::new(out).is_ok_and(|made| made == self.hash)
    }
}

/// Memory in which hashes are computed, as much as the most expensive of them took.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<Block>);

/// Turns at checking passwords, and idle memory for that.
#[derive(Debug)]
pub(super) struct Checks {
    turns: Turns,
    idle: Mutex<Vec<Memory>>,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            turns: Turns::new(TOGETHER),
            idle: Mutex::default(),
        }
    }
}

impl Checks {
    /// Waits for a turn, so that a crowd takes no more memory than a few. A client with `wrong` guesses
    /// lets others go first.
    pub(super) async fn turn(&self, client: IpAddr, wrong: u32) -> Turn {
        let behind = Duration::from_secs(wrong.into());
        self.turns.take(client.into(), behind).await
    }

    /// Checks a password during a turn, in memory for that.
    pub(super) fn run<T>(&self, _: &Turn, check: impl FnOnce(&mut Memory) -> T) -> T {
        let mut memory = self.idle.lock().pop().unwrap_or_default();
        let result = check(&mut memory);
        self.idle.lock().push(memory);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_memory_serves_secrets_of_any_cost() {
        let mut memory = Memory::default();
        let cheap = Argon2::from(Params::new(8, 1, 1, None).unwrap());
        let cheap = cheap.hash_password(b"cheap").unwrap().to_string();
        let dear = Secret::read(&hash_password("dear").unwrap()).unwrap();
        let cheap = Secret::read(&cheap).unwrap();
        for _ in 0..2 {
            assert!(cheap.is(b"cheap", &mut memory));
            assert!(!cheap.is(b"dear", &mut memory));
            assert!(dear.is(b"dear", &mut memory));
            assert!(!dear.is(b"cheap", &mut memory));
        }
        assert_eq!(memory.0.len(), 19 * 1_024);
        assert!(!dear.decoy().unwrap().is(b"dear", &mut memory));
    }

    #[test]
    fn what_is_no_hash_of_argon2_is_refused() {
        for wrong in [
            "",
            "secret",
            "$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQ$",
            "$argon2id$v=19$m=64,t=2,p=1",
            "$scrypt$ln=16,r=8,p=1$aM15713r3Xsvxbi31lqr1Q$nFNh2CVHVjNldFVKDHDlm4CbdRSCdEBsjjJxD+iCs5E",
        ] {
            assert!(Secret::read(wrong).is_err(), "{wrong}");
        }
    }
}
