//! The columns of a trace's files, and samples on their way into them.

use crate::control_state::ControlState;
use crate::event::{Sample, State};
use crate::file::encode::{Deltas, Runs};
use crate::instrument::{Clock, INSTRUMENTS, Instrument, Values};

/// The columns of a trace's files, besides the time and the name of the congestion control.
#[derive(Clone, Debug)]
pub struct Columns {
    /// Instruments, in the order of the columns.
    pub instruments: Vec<&'static Instrument>,
    /// The congestion controls whose state follows, in the order of the columns.
    pub states: Vec<ControlState>,
}

impl Default for Columns {
    /// All instruments, and no state of congestion controls.
    fn default() -> Columns {
        Columns {
            instruments: INSTRUMENTS.iter().collect(),
            states: Vec::new(),
        }
    }
}

/// Rows of a connection that are encoded together, so that the kernel's values stay in the
/// processor's nearest cache while column after column is made from them.
#[derive(Debug, Default)]
pub(crate) struct Block {
    samples: Vec<Sample>,
    controls: Vec<u16>,
    states: Vec<State>,
}

impl Block {
    pub(crate) fn push(&mut self, sample: &Sample, control: u16, state: Option<&State>) {
        self.samples.push(*sample);
        self.controls.push(control);
        self.states.extend(state);
    }

    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    fn clear(&mut self) {
        self.samples.clear();
        self.controls.clear();
        self.states.clear();
    }
}

/// A row group under construction, encoded as far as possible.
#[derive(Debug)]
pub(crate) struct Group {
    pub rows: usize,
    /// The time column: doubles, one after the other.
    pub times: Vec<u8>,
    /// The columns of the instruments, then those of the states.
    pub integers: Vec<Integers>,
    /// The number of the congestion control in each row.
    pub controls: Runs,
    values: Values,
}

/// A column of integers.
#[derive(Debug, Default)]
pub(crate) struct Integers {
    /// Whether each row has a value; `None` for a column in which none can be missing.
    pub levels: Option<Runs>,
    pub deltas: Deltas,
}

impl Integers {
    fn add(&mut self, values: &Values) {
        if let Some(levels) = &mut self.levels {
            for run in values.present.chunk_by(|a, b| a == b) {
                levels.push(u16::from(run[0]), run.len());
            }
        }
        self.deltas.extend(&values.values);
    }

    fn len(&self) -> usize {
        self.deltas.len() + self.levels.as_ref().map_or(0, Runs::len)
    }
}

/// What the rows of a connection depend on, besides its samples.
pub(crate) struct Source<'recording> {
    /// `CLOCK_MONOTONIC` at the beginning of the trace, nanoseconds.
    pub began_ns: u64,
    pub clock: Clock,
    /// For each congestion control of the connection, the index of its state in
    /// [`Columns::states`], if any.
    pub described: &'recording [Option<usize>],
}

impl Group {
    /// Rows of a block: as many as fill a block of differences, so that none are left over.
    pub(crate) const BLOCK: usize = 128;
    /// Rows of a group's first block: one more, as the first row has no difference.
    pub(crate) const FIRST_BLOCK: usize = Group::BLOCK + 1;

    pub(crate) fn new(columns: &Columns) -> Group {
        let column = |optional: bool| Integers {
            levels: optional.then(Runs::default),
            ..Integers::default()
        };
        let instruments = columns.instruments.iter().map(|i| column(i.optional));
        let states = columns.states.iter().flat_map(|state| &state.fields);
        let states = states.map(|_| column(true));
        Group {
            rows: 0,
            times: Vec::new(),
            integers: instruments.chain(states).collect(),
            controls: Runs::wide(),
            values: Values::default(),
        }
    }

    /// Encodes the rows and empties the block.
    pub(crate) fn add(&mut self, block: &mut Block, columns: &Columns, source: &Source<'_>) {
        for sample in &block.samples {
            let since = sample.head.time_ns as i64 - source.began_ns as i64;
            self.times
                .extend_from_slice(&(since as f64 / 1e9).to_le_bytes());
        }
        let (instruments, states) = self.integers.split_at_mut(columns.instruments.len());
        let values = &mut self.values;
        for (instrument, column) in columns.instruments.iter().zip(instruments) {
            values.clear();
            instrument.fill(&block.samples, &source.clock, values);
            column.add(values);
        }
        let mut states = states.iter_mut();
        for (number, state) in columns.states.iter().enumerate() {
            for (field, column) in state.fields.iter().zip(&mut states) {
                values.clear();
                for (row, control) in block.controls.iter().enumerate() {
                    let is_its = source.described.get(usize::from(*control)) == Some(&Some(number));
                    let state = block.states.get(row).filter(|_| is_its);
                    values.push(state.map(|state| field.value(state)));
                }
                column.add(values);
            }
        }
        for run in block.controls.chunk_by(|a, b| a == b) {
            self.controls.push(run[0], run.len());
        }
        self.rows += block.len();
        block.clear();
    }

    /// Approximate size of the encoded rows, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let integers = self.integers.iter().map(Integers::len);
        (self.times.len() + integers.sum::<usize>() + self.controls.len()) as u64
    }
}
