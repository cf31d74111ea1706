//! Spruce: pairs of packets in a Poisson process (Strauss, Katabi and Kaashoek, "A measurement study of
//! available bandwidth estimation tools", IMC 2003). It is told the capacity.
//!
//! | original | here |
//! |---|---|
//! | at most 240 kbit/s and 5 % of the capacity | the same |
//! | the mean of the latest 100 pairs | the answer comes with the first 100 |

use super::{Answer, Method, Next};

const PAIRS: usize = 100;
const BYTES: f64 = 1500.0;

pub(super) struct Spruce {
    capacity: f64,
    random: u64,
    /// Packets sent.
    sent: u64,
    first_of_pair: Option<(u64, f64)>,
    /// Available bandwidths, bit/s.
    samples: Vec<f64>,
    answer: Option<Answer>,
}

impl Spruce {
    pub(super) fn new(capacity: f64, seed: u64) -> Spruce {
        Spruce {
            capacity,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            sent: 0,
            first_of_pair: None,
            samples: Vec::new(),
            answer: None,
        }
    }

    /// Of an exponential distribution of mean 1.
    fn exponential(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        -(((self.random >> 11) as f64 + 1.0) / (1_u64 << 53) as f64).ln()
    }
}

impl Method for Spruce {
    fn next(&mut self, now: f64) -> Next {
        let number = self.sent;
        self.sent += 1;
        let gap = BYTES * 8.0 / self.capacity;
        let rate = (0.05 * self.capacity).min(240e3);
        let again = match number % 2 {
            0 => now + gap,
            _ => now + self.exponential() * 2.0 * BYTES * 8.0 / rate,
        };
        Next {
            send: Some((BYTES as u32, number)),
            again,
        }
    }

    fn arrival(&mut self, now: f64, number: u64) {
        if number.is_multiple_of(2) {
            self.first_of_pair = Some((number, now));
            return;
        }
        let Some((first, at)) = self.first_of_pair.filter(|(first, _)| first + 1 == number) else {
            return;
        };
        debug_assert!(first < number, "in order");
        let gap = BYTES * 8.0 / self.capacity;
        self.samples
            .push(self.capacity * (1.0 - (now - at - gap) / gap));
        if self.samples.len() == PAIRS {
            let mean = self.samples.iter().sum::<f64>() / PAIRS as f64;
            let mean = mean.clamp(0.0, self.capacity);
            self.answer = Some(Answer {
                at_s: now,
                low: mean,
                high: mean,
            });
        }
    }

    fn answer(&self) -> Option<Answer> {
        self.answer
    }
}
