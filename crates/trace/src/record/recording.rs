//! One connection on its way into its file.

use crate::control_state::ControlState;
use crate::event::{Identity, Sample, State};
use crate::file::{Block, Columns, ConnectionFile, FileError, Group, Source};
use crate::instrument::Clock;

use super::index::Connection;
use super::store::Store;

/// Rows of a row group.
const ROWS_PER_GROUP: usize = 1 << 15;

/// What all recordings share.
pub(super) struct Tools {
    pub began_ns: u64,
    pub hz: u32,
    pub columns: Columns,
    pub store: Store,
}

pub(super) struct Recording {
    pub number: usize,
    pub connection: Connection,
    opened_ns: Option<u64>,
    block: Block,
    block_rows: usize,
    group: Option<Group>,
    file: Option<ConnectionFile>,
    bytes: u64,
    control: u16,
    /// For each congestion control by number, the index of its state in [`Columns::states`], if any.
    described: Vec<Option<usize>>,
}

impl Recording {
    pub(super) fn new(number: usize, identity: &Identity, time_s: f64) -> Recording {
        let is_adopted = identity.is_adopted();
        let mut recording = Recording {
            number,
            connection: Connection {
                first_s: time_s,
                last_s: time_s,
                began_before: is_adopted,
                incoming: (!is_adopted).then(|| identity.is_incoming()),
                ..Connection::default()
            },
            opened_ns: (!is_adopted).then_some(identity.head.time_ns),
            block: Block::default(),
            block_rows: Group::FIRST_BLOCK,
            group: None,
            file: None,
            bytes: 0,
            control: u16::MAX,
            described: Vec::new(),
        };
        recording.identify(identity);
        recording
    }

    pub(super) fn identify(&mut self, identity: &Identity) {
        let connection = &mut self.connection;
        connection.local = identity.local().to_string();
        connection.remote = identity.remote().to_string();
        connection.netns = identity.netns;
        connection.cgroup = identity.cgroup;
        connection.program = Some(identity.program()).filter(|program| !program.is_empty());
        connection.pid = Some(identity.pid).filter(|pid| *pid != 0);
        connection.lost = connection.lost.max(u64::from(identity.head.lost));
    }

    pub(super) fn name_control(&mut self, name: String, states: &[ControlState]) {
        let names = &mut self.connection.congestion_controls;
        let number = names.iter().position(|other| *other == name);
        let number = number.unwrap_or_else(|| {
            self.described.push(ControlState::position(states, &name));
            names.push(name);
            names.len() - 1
        });
        self.control = u16::try_from(number).unwrap_or(u16::MAX);
    }

    /// Records a sample. Returns the change in the number of waiting rows.
    pub(super) fn sample(
        &mut self,
        sample: &Sample,
        state: Option<&State>,
        tools: &mut Tools,
    ) -> Result<isize, FileError> {
        let since = sample.head.time_ns as i64 - tools.began_ns as i64;
        let connection = &mut self.connection;
        connection.last_s = since as f64 / 1e9;
        if connection.samples == 0 {
            connection.first_s = connection.last_s;
        }
        connection.samples += 1;
        connection.lost = connection.lost.max(u64::from(sample.head.lost));
        connection.skipped = connection.skipped.max(sample.skipped);
        self.block.push(sample, self.control, state);
        if self.block.len() < self.block_rows {
            return Ok(1);
        }
        self.encode(tools);
        let rows = self.group.as_ref().map_or(0, |group| group.rows);
        if rows < ROWS_PER_GROUP {
            return Ok(1);
        }
        self.write(tools)?;
        Ok(1 - rows as isize)
    }

    /// Number of waiting rows.
    pub(super) fn waiting(&self) -> usize {
        self.block.len() + self.group.as_ref().map_or(0, |group| group.rows)
    }

    fn encode(&mut self, tools: &Tools) {
        let group = self.group.get_or_insert_with(|| Group::new(&tools.columns));
        let source = Source {
            began_ns: tools.began_ns,
            clock: Clock {
                hz: tools.hz,
                opened_ns: self.opened_ns,
            },
            described: &self.described,
        };
        group.add(&mut self.block, &tools.columns, &source);
        self.block_rows = Group::BLOCK;
    }

    /// Writes the waiting rows, if there is room for them.
    pub(super) fn write(&mut self, tools: &mut Tools) -> Result<(), FileError> {
        if self.block.len() > 0 {
            self.encode(tools);
        }
        self.block_rows = Group::FIRST_BLOCK;
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        let rows = group.rows as u64;
        // After an error nothing can be appended to the file.
        if self.connection.error.is_some() || !tools.store.has_room(group.bytes()) {
            self.connection.unwritten += rows;
            self.connection.samples -= rows;
            return Ok(());
        }
        let written = self.put(group, tools);
        if let Err(error) = &written {
            self.connection.error = Some(error.reason.clone());
            self.connection.unwritten += self.connection.samples;
            self.connection.samples = 0;
        }
        written
    }

    fn put(&mut self, group: Group, tools: &mut Tools) -> Result<(), FileError> {
        self.open(tools)?;
        let file = self.file.as_mut().expect("it was opened");
        file.write(group, &self.connection.congestion_controls)?;
        let bytes = file.bytes();
        self.grew_to(bytes, tools);
        Ok(())
    }

    fn grew_to(&mut self, bytes: u64, tools: &mut Tools) {
        tools.store.grew(bytes.saturating_sub(self.bytes));
        self.bytes = bytes;
    }

    /// Opens the file, named after the addresses of the connection at this time.
    fn open(&mut self, tools: &Tools) -> Result<(), FileError> {
        if self.file.is_none() {
            let ends = format!("{}_{}", self.connection.local, self.connection.remote);
            let ends: String = ends.chars().filter(|c| !matches!(c, '[' | ']')).collect();
            let ends = ends.replace(':', "-");
            self.connection.file = format!("{:05}_{ends}.parquet", self.number + 1);
            let path = tools.store.folder.join(&self.connection.file);
            self.file = Some(ConnectionFile::create(&path, &tools.columns)?);
        }
        Ok(())
    }

    /// Writes the waiting rows and ends the file. Returns how many samples found no room.
    pub(super) fn finish(mut self, tools: &mut Tools) -> (u64, Result<(), FileError>) {
        let mut ended = self.write(tools);
        if ended.is_ok() && self.connection.error.is_none() {
            ended = self.open(tools).and_then(|()| self.end(tools));
            if let Err(error) = &ended {
                self.connection.error = Some(error.reason.clone());
            }
        }
        let unwritten = self.connection.unwritten;
        tools
            .store
            .finished(self.number, self.connection, self.bytes);
        (unwritten, ended)
    }

    fn end(&mut self, tools: &mut Tools) -> Result<(), FileError> {
        let file = self.file.take().expect("it was opened");
        let text = serde_json::to_string(&self.connection).expect("plain values");
        self.grew_to(file.finish(text)?, tools);
        Ok(())
    }
}
