//! Events into files: one a connection, from its first packet to its last, and `trace.json`, which
//! lists them and says what was not seen.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use fairwind_kernel::hz;
use serde::{Deserialize, Serialize};

use crate::event::{Event, Identity, Sample};
use crate::file::{Clock, Columns, ConnectionFile, FileError, Row};
use crate::kernel::Counts;

/// The list of connections in the folder of a trace.
pub const INDEX_FILE: &str = "trace.json";

/// Rows of a connection that wait in memory at most.
const ROWS_OF_ONE: usize = 1 << 14;
/// Rows of all connections that wait in memory at most, some 70 MB.
const ROWS_OF_ALL: usize = 1 << 18;

/// What is known of a traced connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// File in the folder of the trace.
    pub file: String,
    /// Our end, address and port.
    pub local: String,
    /// The other end.
    pub remote: String,
    /// Whether the other end opened it; not known of those that were there before the trace.
    pub incoming: Option<bool>,
    /// Inode of the network namespace.
    pub netns: u32,
    /// Inode of the control group.
    pub cgroup: u64,
    /// The program that opened it or listens for it, at most 15 bytes of its name.
    pub program: Option<String>,
    /// The process.
    pub pid: Option<u32>,
    /// Its congestion controls, in the order in which it had them first.
    pub congestion_controls: Vec<String>,
    /// Seconds from the beginning of the trace to the first sample.
    pub first_s: f64,
    /// Seconds from the beginning of the trace to the last sample.
    pub last_s: f64,
    /// Whether it was there before the trace.
    pub began_before: bool,
    /// Whether it ended during the trace.
    pub ended: bool,
    /// Rows of the file.
    pub samples: u64,
    /// Events of the connection that found no room in the ring buffer.
    pub lost: u64,
}

/// What `trace.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// 1.
    pub format_version: u32,
    /// Seconds since 1970 at the beginning of the trace.
    pub began_unix_s: f64,
    /// Length of the trace, seconds.
    pub duration_s: f64,
    /// Seconds between samples; nothing without an interval.
    pub interval_s: Option<f64>,
    /// Whether every ACK gave a sample.
    pub every_ack: bool,
    /// Events that found no room in the ring buffer.
    pub lost: u64,
    /// The same by CPU.
    pub lost_by_cpu: Vec<u64>,
    /// Connections that match, but for which the kernel had no memory.
    pub unwatched: u64,
    /// Runs of the tracer's programs that the kernel left out.
    pub missed_runs: u64,
    /// Intervals that passed without a sample, since the tracer got no processor.
    pub late_intervals: u64,
    /// The connections, in the order in which they were first seen.
    pub connections: Vec<Connection>,
}

/// Length and manner of a trace, for its index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Length of the trace, seconds.
    pub duration_s: f64,
    /// Seconds between samples; nothing without an interval.
    pub interval_s: Option<f64>,
    /// Whether every ACK gave a sample.
    pub every_ack: bool,
    /// Intervals that passed without a sample.
    pub late_intervals: u64,
}

/// Writes the files of a trace.
pub struct Recorder {
    began_unix_s: f64,
    tools: Tools,
    waiting: usize,
    open: HashMap<u64, Recording>,
    closed: Vec<(usize, Connection)>,
    seen: usize,
}

/// What rows are written with.
struct Tools {
    folder: PathBuf,
    began_ns: u64,
    hz: u32,
    columns: Columns,
}

struct Recording {
    number: usize,
    connection: Connection,
    opened_ns: Option<u64>,
    rows: Vec<Row>,
    file: Option<ConnectionFile>,
    control: u16,
    named: bool,
}

impl Recorder {
    /// Writes into this folder, which must be new or empty; times count from now.
    ///
    /// # Errors
    ///
    /// If the folder holds something or cannot be made.
    pub fn create(folder: &Path) -> Result<Recorder, FileError> {
        fs::create_dir_all(folder).map_err(|error| FileError::new(folder, error))?;
        let mut entries = fs::read_dir(folder).map_err(|error| FileError::new(folder, error))?;
        if entries.next().is_some() {
            let reason = "the folder is not empty; name a new one";
            return Err(FileError::new(folder, reason));
        }
        Ok(Recorder {
            began_unix_s: now_ns(libc::CLOCK_REALTIME) as f64 / 1e9,
            tools: Tools {
                folder: folder.to_owned(),
                began_ns: now_ns(libc::CLOCK_MONOTONIC),
                hz: hz(),
                columns: Columns::default(),
            },
            waiting: 0,
            open: HashMap::new(),
            closed: Vec::new(),
            seen: 0,
        })
    }

    /// Keeps what the event says.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn event(&mut self, event: &Event) -> Result<(), FileError> {
        match event {
            Event::Open(identity) => self.opened(identity),
            Event::Identity(identity) => {
                if let Some(recording) = self.open.get_mut(&identity.head.id) {
                    recording.identify(identity);
                }
            }
            Event::Control(control) => {
                if let Some(recording) = self.open.get_mut(&control.head.id) {
                    recording.name_control(control.name());
                }
            }
            Event::Sample(sample) => self.sample(sample)?,
            Event::Close(sample) => {
                self.sample(sample)?;
                if let Some(mut recording) = self.open.remove(&sample.head.id) {
                    recording.connection.ended = true;
                    self.finish_one(recording)?;
                }
            }
        }
        Ok(())
    }

    fn opened(&mut self, identity: &Identity) {
        if let Some(recording) = self.open.get_mut(&identity.head.id) {
            recording.identify(identity);
            return;
        }
        let time_s = self.seconds(identity.head.time_ns);
        let mut recording = Recording {
            number: self.seen,
            connection: Connection {
                first_s: time_s,
                last_s: time_s,
                began_before: identity.is_adopted(),
                ..Connection::default()
            },
            opened_ns: (!identity.is_adopted()).then_some(identity.head.time_ns),
            rows: Vec::new(),
            file: None,
            control: u16::MAX,
            named: false,
        };
        recording.identify(identity);
        recording.connection.incoming = (!identity.is_adopted()).then(|| identity.is_incoming());
        self.seen += 1;
        self.open.insert(identity.head.id, recording);
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), FileError> {
        let time_s = self.seconds(sample.head.time_ns);
        // Of one whose beginning was lost, or one that has ended: a sample asked for just then.
        let Some(recording) = self.open.get_mut(&sample.head.id) else {
            return Ok(());
        };
        let connection = &mut recording.connection;
        if connection.samples == 0 {
            connection.first_s = time_s;
        }
        connection.last_s = time_s;
        connection.samples += 1;
        connection.lost = connection.lost.max(u64::from(sample.head.lost));
        let control = recording.control;
        let sample = *sample;
        recording.rows.push(Row { sample, control });
        self.waiting += 1;
        if recording.rows.len() >= ROWS_OF_ONE {
            self.waiting -= recording.rows.len();
            recording.write(&mut self.tools)?;
        } else if self.waiting >= ROWS_OF_ALL {
            self.write_all()?;
        }
        Ok(())
    }

    fn write_all(&mut self) -> Result<(), FileError> {
        for recording in self.open.values_mut() {
            recording.write(&mut self.tools)?;
        }
        self.waiting = 0;
        Ok(())
    }

    fn finish_one(&mut self, mut recording: Recording) -> Result<(), FileError> {
        self.waiting -= recording.rows.len();
        recording.write(&mut self.tools)?;
        if let Some(file) = recording.file.take() {
            let text = serde_json::to_string(&recording.connection).expect("plain values");
            file.finish(text)?;
        }
        self.closed.push((recording.number, recording.connection));
        Ok(())
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Connections seen until now.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Ends all files and writes the index.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn finish(mut self, counts: &Counts, manner: &Manner) -> Result<Index, FileError> {
        for (_, recording) in std::mem::take(&mut self.open) {
            self.finish_one(recording)?;
        }
        self.closed.sort_by_key(|(number, _)| *number);
        let index = Index {
            format_version: 1,
            began_unix_s: self.began_unix_s,
            duration_s: manner.duration_s,
            interval_s: manner.interval_s,
            every_ack: manner.every_ack,
            lost: counts.lost.iter().sum(),
            lost_by_cpu: counts.lost.clone(),
            unwatched: counts.unwatched,
            missed_runs: counts.missed_runs,
            late_intervals: manner.late_intervals,
            connections: self.closed.into_iter().map(|(_, c)| c).collect(),
        };
        let path = self.tools.folder.join(INDEX_FILE);
        let text = serde_json::to_string_pretty(&index).expect("plain values");
        fs::write(&path, text + "\n").map_err(|error| FileError::new(&path, error))?;
        Ok(index)
    }

    fn seconds(&self, time_ns: u64) -> f64 {
        (time_ns as i64 - self.tools.began_ns as i64) as f64 / 1e9
    }
}

impl Recording {
    fn identify(&mut self, identity: &Identity) {
        let connection = &mut self.connection;
        connection.local = identity.local().to_string();
        connection.remote = identity.remote().to_string();
        connection.netns = identity.netns;
        connection.cgroup = identity.cgroup;
        connection.program = Some(identity.program()).filter(|program| !program.is_empty());
        connection.pid = Some(identity.pid).filter(|pid| *pid != 0);
        connection.lost = connection.lost.max(u64::from(identity.head.lost));
    }

    fn name_control(&mut self, name: String) {
        let names = &mut self.connection.congestion_controls;
        let number = names.iter().position(|other| *other == name);
        let number = number.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        self.control = u16::try_from(number).unwrap_or(u16::MAX);
    }

    /// Writes the rows that wait; the file is named by the ends of the connection as they are then.
    fn write(&mut self, tools: &mut Tools) -> Result<(), FileError> {
        if !self.named {
            let ends = format!("{}_{}", self.connection.local, self.connection.remote);
            let ends: String = ends.chars().filter(|c| !matches!(c, '[' | ']')).collect();
            let ends = ends.replace(':', "-");
            self.connection.file = format!("{:05}_{ends}.parquet", self.number + 1);
            self.named = true;
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let path = tools.folder.join(&self.connection.file);
                self.file.insert(ConnectionFile::create(&path)?)
            }
        };
        if !self.rows.is_empty() {
            let clock = Clock {
                began_ns: tools.began_ns,
                hz: tools.hz,
                opened_ns: self.opened_ns,
            };
            let controls = &self.connection.congestion_controls;
            file.write(&self.rows, controls, &clock, &mut tools.columns)?;
            self.rows.clear();
        }
        Ok(())
    }
}

fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that is written.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) };
    assert_eq!(failed, 0, "Linux has both clocks");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
