//! A map from numbers to values, in which the number of a removed value finds nothing.

/// Slots that are reused under new numbers.
#[derive(Debug)]
pub struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    /// Adds a value. Its number differs from that of every other value present, and of the last
    /// 2^32 in its slot.
    pub fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(value);
        (u64::from(slot.0) << 32) | u64::from(index)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (generation, index) = split(number);
        match self.slots.get_mut(index) {
            Some((current, value)) if *current == generation => value.as_mut(),
            _ => None,
        }
    }

    pub fn remove(&mut self, number: u64) -> Option<T> {
        let (generation, index) = split(number);
        let slot = self.slots.get_mut(index)?;
        if slot.0 != generation {
            return None;
        }
        let value = slot.1.take()?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(index as u32);
        Some(value)
    }

    /// All values present.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots
            .iter_mut()
            .filter_map(|(_, value)| value.as_mut())
    }

    /// Removes all values.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.free.clear();
        self.slots.drain(..).filter_map(|(_, value)| value)
    }
}

fn split(number: u64) -> (u32, usize) {
    ((number >> 32) as u32, number as u32 as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_thing_that_is_gone_finds_nothing() {
        let mut slots = Slots::default();
        let a = slots.insert('a');
        assert_eq!(slots.remove(a), Some('a'));
        let b = slots.insert('b');
        assert_ne!(a, b);
        assert_eq!(slots.get_mut(a), None);
        assert_eq!(slots.remove(a), None);
        assert_eq!(slots.get_mut(b), Some(&mut 'b'));
    }
}
