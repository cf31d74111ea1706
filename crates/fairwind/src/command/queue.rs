//! A file of jobs that survives interruptions: `fairwind get --queue FILE`.
//!
//! The file is only read, so anybody may append to it at any time. What has become of each job is appended to `FILE.log`,
//! one JSON object a line, after the work and with `fsync`: a job whose end is not noted is carried out again, and
//! `get` continues where it was. The log is locked by whoever works on the queue. It knows jobs without their passwords.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fairwind_ftp::client::{Outcome, is_url, sync_name, without_passwords};
use fairwind_kernel::LockedFile;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::failure::Failure;

/// A job of a queue.
pub(crate) struct Job {
    pub urls: Vec<String>,
    pub local: Option<String>,
}

/// The log of a queue.
struct Log {
    file: LockedFile,
    path: PathBuf,
    /// How many times each job has been done.
    done: HashMap<String, usize>,
}

/// What is noted of a job.
const DONE: &str = "done";
const FAILED: &str = "failed";
/// It was done, and has been taken out of the queue since: the same line may come again.
const REMOVED: &str = "removed";

/// Carries out the jobs of a queue, also those that are added meanwhile; one that fails does not stop the others, and is
/// tried again by the next run.
///
/// # Errors
/// If the queue or its log cannot be read or written, another process works on it, or the user stops.
pub(crate) fn run(
    queue: &Path,
    mut carry_out: impl FnMut(&Job) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    // First of all: a missing queue has no log.
    lines(queue)?;
    let mut log = Log::open(queue)?;
    log.forget(&lines(queue)?)?;
    let folder = queue.parent().unwrap_or(Path::new(""));
    let mut all = Outcome::default();
    // How many times each job has failed in this run.
    let mut failed: HashMap<String, usize> = HashMap::new();
    while let Some(line) = next(&lines(queue)?, &log.done, &failed) {
        let noted = without_passwords(&line);
        let result = job(&line, folder).and_then(|job| carry_out(&job));
        let error = match result {
            Err(stopped @ Failure::Stopped(_)) => return Err(stopped),
            Err(failure) => {
                all.fail(&noted, &failure.message());
                Some(failure.message())
            }
            Ok(outcome) => {
                let errors: Vec<String> = outcome
                    .failures
                    .iter()
                    .map(|failed| format!("{}: {}", failed.source, failed.error))
                    .collect();
                for report in outcome.transfers {
                    all.add(report);
                }
                all.failures.extend(outcome.failures);
                (!errors.is_empty()).then(|| errors.join("; "))
            }
        };
        match error {
            Some(error) => {
                log.note(&noted, FAILED, Some(&error))?;
                *failed.entry(noted).or_default() += 1;
            }
            None => {
                log.note(&noted, DONE, None)?;
                *log.done.entry(noted).or_default() += 1;
            }
        }
    }
    Ok(all)
}

/// The jobs of a queue as they stand there, in order. A last line without its end may be half written, within a character
/// too, and what was appended before a loss of power may have become zeros.
fn lines(queue: &Path) -> Result<Vec<String>, Failure> {
    let bytes = fs::read(queue).map_err(Failure::no_input(queue))?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..whole]);
    let lines = text.lines().map(|line| line.trim_matches('\0').trim());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

/// The first job that has been neither done nor tried in this run. The same line is as many jobs as it is there times,
/// whatever its passwords are.
fn next(
    lines: &[String],
    done: &HashMap<String, usize>,
    failed: &HashMap<String, usize>,
) -> Option<String> {
    let count = |of: &HashMap<String, usize>, job: &String| of.get(job).copied().unwrap_or(0);
    let mut seen: HashMap<String, usize> = HashMap::new();
    let open = lines.iter().find(|line| {
        let job = without_passwords(line);
        let past = count(done, &job) + count(failed, &job);
        let seen = seen.entry(job).or_default();
        *seen += 1;
        *seen > past
    });
    open.cloned()
}

/// The job of a line: a URL, and behind blanks a place, which is relative to the folder of the queue.
fn job(line: &str, folder: &Path) -> Result<Job, Failure> {
    if line.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Failure::input("the line is not UTF-8"));
    }
    let (url, local) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let local = local.trim();
    if !is_url(url) {
        return Err(Failure::input("a URL is missing: ftp://user@host/path"));
    }
    if local == "-" {
        return Err(Failure::input("a queue has no standard output"));
    }
    // Keeps a slash at the end, which means a directory.
    let place = folder.join(local).into_os_string().into_string();
    let place = place.map_err(|_| Failure::input("the folder of the queue is no UTF-8"))?;
    Ok(Job {
        urls: vec![url.to_owned()],
        local: (!place.is_empty()).then_some(place),
    })
}

impl Log {
    fn open(queue: &Path) -> Result<Self, Failure> {
        let mut path = OsString::from(queue);
        path.push(".log");
        let path = PathBuf::from(path);
        let failed = Failure::at(&path);
        let facts = fs::metadata(queue).map_err(Failure::at(queue))?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            // Whoever may not read the queue is not to know its jobs by the log.
            .mode(facts.permissions().mode() & 0o666 | 0o600)
            .open(&path)
            .map_err(failed)?;
        let file = LockedFile::try_lock(file).map_err(|error| match error {
            TryLockError::WouldBlock => Failure::work(format!(
                "{}: another process works on this queue",
                queue.display()
            )),
            TryLockError::Error(error) => failed(error),
        })?;
        let mut bytes = Vec::new();
        (&*file).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.is_empty() {
            // The log may be new. What is noted in it is on the disk only if its name is.
            sync_name(&path).map_err(failed)?;
        }
        let text = String::from_utf8_lossy(&bytes);
        let mut done: HashMap<String, usize> = HashMap::new();
        for line in text.lines() {
            // A line that a crash has cut, within a character too, or made zeros of is of a job whose end is not noted.
            let Ok(note) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let Some(job) = note["job"].as_str() else {
                continue;
            };
            let count = done.entry(without_passwords(job)).or_default();
            match note["state"].as_str() {
                Some(DONE) => *count += 1,
                Some(REMOVED) => *count = count.saturating_sub(1),
                _ => {}
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            (&*file).write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { file, path, done })
    }

    /// Notes jobs that were done and are no longer in the queue: the same line may be added again.
    fn forget(&mut self, lines: &[String]) -> Result<(), Failure> {
        let mut gone = Vec::new();
        for (job, count) in &mut self.done {
            let is_there = |line: &&String| without_passwords(line) == *job;
            let there = lines.iter().filter(is_there).count();
            gone.extend((there..*count).map(|_| job.clone()));
            *count = there.min(*count);
        }
        gone.iter()
            .try_for_each(|job| self.note(job, REMOVED, None))
    }

    fn note(&self, job: &str, state: &str, error: Option<&str>) -> Result<(), Failure> {
        let mut note = json!({
            "time": Timestamp::now().to_string(),
            "state": state,
            "job": job,
        });
        if let Some(error) = error {
            note["error"] = json!(error);
        }
        let mut file: &File = &self.file;
        let written = file.write_all(format!("{note}\n").as_bytes());
        let synced: io::Result<()> = written.and_then(|()| file.sync_data());
        synced.map_err(Failure::at(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(&str, usize)]) -> HashMap<String, usize> {
        of.iter()
            .map(|(line, count)| ((*line).to_owned(), *count))
            .collect()
    }

    #[test]
    fn a_line_is_as_many_jobs_as_it_is_there_times() {
        let lines = ["a", "b", "a"].map(str::to_owned);
        let next = |done: &[_], failed: &[_]| next(&lines, &counts(done), &counts(failed));
        assert_eq!(next(&[], &[]).as_deref(), Some("a"));
        assert_eq!(next(&[("a", 1)], &[]).as_deref(), Some("b"));
        assert_eq!(next(&[("a", 1)], &[("b", 1)]).as_deref(), Some("a"));
        assert_eq!(next(&[("a", 2)], &[("b", 1)]), None);
    }

    #[test]
    fn a_job_is_the_same_with_another_password() {
        let line = "ftp://u:new@h/a".to_owned();
        let done = counts(&[("ftp://u@h/a", 1)]);
        assert_eq!(next(std::slice::from_ref(&line), &done, &counts(&[])), None);
        assert_eq!(
            next(std::slice::from_ref(&line), &counts(&[]), &counts(&[])),
            Some(line)
        );
    }

    #[test]
    fn a_job_is_a_url_and_a_place_in_the_folder_of_the_queue() {
        let folder = Path::new("/q");
        let place = |line: &str| job(line, folder).unwrap().local.unwrap();
        assert_eq!(place("ftp://h/a"), "/q/");
        assert_eq!(place("ftp://h/a   data/"), "/q/data/");
        assert_eq!(place("ftp://h/a\tmy file"), "/q/my file");
        assert_eq!(place("ftp://h/a /tmp/x"), "/tmp/x");
        assert!(job("a b", folder).is_err() && job("ftp://h/a -", folder).is_err());
        assert_eq!(job("ftp://h/a", Path::new("")).unwrap().local, None);
    }

    #[test]
    fn what_is_being_written_is_no_job_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue");
        fs::write(&path, "# comment\n\n ftp://h/a \nftp://h/b").unwrap();
        assert_eq!(lines(&path).unwrap(), ["ftp://h/a"]);
    }
}
