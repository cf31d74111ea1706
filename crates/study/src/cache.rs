//! Results that are kept: a study that is interrupted goes on where it was.
//!
//! Each result has a record, which says what it depends on. A record of anything else is not used.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{fs, io};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Error;

/// What is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// What has no record.
    #[default]
    Missing,
    /// Everything.
    All,
    /// Nothing.
    Nothing,
}

/// The records in a folder.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    policy: Policy,
    damaged: Damaged,
}

/// Records that cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Damaged(Arc<Mutex<BTreeMap<PathBuf, String>>>);

impl Damaged {
    fn add(&self, place: PathBuf, why: impl Display) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(place, why.to_string());
    }

    /// One line about each of the first few, and how many more there are; empty if there are none.
    pub fn report(&self) -> String {
        const SHOWN: usize = 5;
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = String::new();
        for (place, why) in records.iter().take(SHOWN) {
            report.push_str(&format!("left out: {}: {why}\n", place.display()));
        }
        if records.len() > SHOWN {
            report.push_str(&format!("left out: {} more\n", records.len() - SHOWN));
        }
        report
    }
}

impl Cache {
    /// The records in `folder`, which need not exist.
    pub fn new(folder: &Path, policy: Policy) -> Cache {
        Cache {
            folder: folder.to_owned(),
            policy,
            damaged: Damaged::default(),
        }
    }

    /// Adds to `damaged` the records that cannot be read and are not replaced, as nothing is run.
    #[must_use]
    pub fn noting(self, damaged: &Damaged) -> Cache {
        let damaged = damaged.clone();
        Cache { damaged, ..self }
    }

    /// The kept result of what is `asked`, all that it depends on; none if there is none, or if everything is
    /// run again.
    pub fn kept<T: DeserializeOwned>(&self, name: &str, asked: &Value) -> Option<T> {
        if self.policy == Policy::All {
            return None;
        }
        let place = self.place(name);
        match read(&place, asked) {
            Ok(result) => result,
            Err(error) => {
                if self.policy == Policy::Nothing {
                    self.damaged.add(place, error);
                }
                None
            }
        }
    }

    /// Whether [`kept_or_run`](Cache::kept_or_run) would run this.
    pub fn is_to_be_run(&self, name: &str, asked: &Value) -> bool {
        self.policy != Policy::Nothing && self.kept::<Value>(name, asked).is_none()
    }

    /// The kept result, or that of `run`, which is kept; none if there is none and nothing is to be run.
    ///
    /// # Errors
    /// Those of `run`, or if the record cannot be written.
    pub fn kept_or_run<T: DeserializeOwned + Serialize>(
        &self,
        name: &str,
        asked: &Value,
        run: impl FnOnce() -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        if let Some(kept) = self.kept(name, asked) {
            return Ok(Some(kept));
        }
        if self.policy == Policy::Nothing {
            return Ok(None);
        }
        let result = run()?;
        self.keep(name, asked, &result)?;
        Ok(Some(result))
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// If the record cannot be written.
    pub fn keep<T: Serialize>(&self, name: &str, asked: &Value, result: &T) -> Result<(), Error> {
        let record = json!({ "asked": asked, "result": result });
        write_whole(&self.place(name), &format!("{record:#}\n"))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// The result of a record; none if there is no record, or it is of anything else.
fn read<T: DeserializeOwned>(place: &Path, asked: &Value) -> io::Result<Option<T>> {
    let text = match fs::read_to_string(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    let mut record: Value = serde_json::from_str(&text)?;
    if record["asked"] != *asked {
        return Ok(None);
    }
    Ok(Some(serde_json::from_value(record["result"].take())?))
}

/// FNV-1a (Fowler, Noll and Vo).
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The digest of the running program, on which all that the simulator says depends.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let program = std::env::current_exe().and_then(fs::read);
        program.map_or_else(
            |_| format!("fairwind {}", env!("CARGO_PKG_VERSION")),
            |program| format!("{:016x}", digest(&program)),
        )
    })
}

/// Writes the file in one step, with its folder: several threads may write the same one.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(place: &Path, text: &str) -> Result<(), Error> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(Error::at(folder))?;
    }
    let beside = place.with_extension(format!("{:?}", std::thread::current().id()));
    let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, place));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(Error::at(place))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The result, and how often something was run so far.
    fn get(cache: &Cache, asked: &Value, runs: &Cell<u32>) -> Option<u32> {
        let run = || {
            runs.set(runs.get() + 1);
            Ok(runs.get())
        };
        cache.kept_or_run("one", asked, run).unwrap()
    }

    #[test]
    fn what_has_been_run_is_not_run_again_unless_it_depends_on_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), Policy::Missing);
        let (runs, asked) = (Cell::new(0), json!({ "seed": 1 }));
        assert!(cache.is_to_be_run("one", &asked));
        assert_eq!(get(&cache, &asked, &runs), Some(1));
        assert!(!cache.is_to_be_run("one", &asked));
        assert_eq!(get(&cache, &asked, &runs), Some(1));
        assert_eq!(get(&cache, &json!({ "seed": 2 }), &runs), Some(2));
        // The record is that of seed 2 now.
        assert_eq!(get(&cache, &asked, &runs), Some(3));
    }

    #[test]
    fn a_damaged_record_is_no_result() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path(), Policy::Missing);
        let (runs, asked) = (Cell::new(0), json!(1));
        get(&cache, &asked, &runs);
        fs::write(folder.path().join("one.json"), "{\"asked\": 1, \"res").unwrap();
        assert_eq!(get(&cache, &asked, &runs), Some(2));
    }

    #[test]
    fn a_damaged_record_that_is_not_run_again_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let damaged = Damaged::default();
        let cache = |policy| Cache::new(folder.path(), policy).noting(&damaged);
        let get = |policy| cache(policy).kept::<u32>("one", &json!(1));
        assert_eq!(get(Policy::Nothing), None);
        assert_eq!(damaged.report(), "");
        let place = folder.path().join("one.json");
        fs::write(&place, "{\"asked\": 1, \"res").unwrap();
        assert_eq!(get(Policy::Missing), None);
        assert_eq!(damaged.report(), "");
        assert_eq!(get(Policy::Nothing), None);
        assert_eq!(get(Policy::Nothing), None);
        let report = damaged.report();
        let of_it = format!("left out: {}: EOF while parsing", place.display());
        assert!(report.starts_with(&of_it), "{report}");
        assert_eq!(report.lines().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("one.json");
        // A file does not take the place of a folder.
        fs::create_dir(&place).unwrap();
        let error = write_whole(&place, "text").unwrap_err().to_string();
        assert!(error.starts_with(&place.display().to_string()), "{error}");
        let names = fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["one.json"]);
    }

    #[test]
    fn a_policy_runs_everything_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let with = |policy| Cache::new(folder.path(), policy);
        let (runs, asked) = (Cell::new(0), json!(1));
        assert_eq!(get(&with(Policy::Nothing), &asked, &runs), None);
        assert_eq!(get(&with(Policy::All), &asked, &runs), Some(1));
        assert_eq!(get(&with(Policy::All), &asked, &runs), Some(2));
        assert_eq!(get(&with(Policy::Nothing), &asked, &runs), Some(2));
    }

    #[test]
    fn the_digest_is_fnv_1a() {
        // From the authors' test vectors.
        assert_eq!(digest(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(digest(b"foobar"), 0x8594_4171_f739_67e8);
    }
}
