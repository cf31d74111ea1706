//! The folder of a result: what it may replace, and how it is published under its name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use fairwind_result::{
    CAPTURES_FOLDER, EXPERIMENT_FILE, FLOWS_FILE, LINKS_FILE, PLOTS_FOLDER, PROGRAMS_FOLDER,
    REPORT_FILE, RESULT_FILE, ResultError, SUMMARY_FILE,
};

use super::ExecuteError;
use super::leftovers::{self, Working};

/// Where a result will be published, and the folder beside it in which it is written.
#[derive(Debug)]
pub(crate) struct Destination {
    out: PathBuf,
    force: bool,
    /// Removed with everything in it unless it is published.
    working: Working,
}

impl Destination {
    /// Checks that a result may be published as `out` before any work is done, and creates the working
    /// folder.
    pub(crate) fn prepare(out: &Path, force: bool) -> Result<Destination, ExecuteError> {
        // Drops the last component of `results/.` and `results/`, which is no name to rename to.
        let out: PathBuf = out.components().collect();
        let name = out.file_name().ok_or_else(|| ExecuteError::InTheWay {
            path: out.clone(),
            reason: "it has no name of its own".into(),
        })?;
        let parent = parent(&out);
        leftovers::remove(parent, name);
        may_be_replaced(&out, force)?;
        fs::create_dir_all(parent).map_err(ResultError::io(parent))?;
        let working = Working::create(parent, name).map_err(ResultError::io(parent))?;
        Ok(Destination {
            out,
            force,
            working,
        })
    }

    /// Where the result is written until it is complete.
    pub(crate) fn working_folder(&self) -> &Path {
        self.working.path()
    }

    /// Renames the complete result to its final name. Only then is the result that it replaces removed.
    pub(crate) fn publish(self) -> Result<PathBuf, ExecuteError> {
        let out = self.out.clone();
        let working = self.working.path();
        sync(working).map_err(ResultError::io(working))?;
        // Another command may publish to the same place between any two steps here; whatever it does, the
        // name ends up with one complete result.
        loop {
            may_be_replaced(&out, self.force)?;
            match fs::rename(working, &out) {
                Ok(()) => break,
                Err(error) if is_taken(&error) => {}
                Err(source) => return Err(ResultError::io(&out)(source).into()),
            }
            // Moves the old result aside first, so that the name never holds a mixture of two.
            let aside = self.working.aside();
            match fs::rename(&out, &aside) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(ResultError::io(&out)(source).into()),
            }
            let renamed = fs::rename(working, &out);
            match renamed {
                Err(source) if !is_taken(&source) => {
                    let _ = fs::rename(&aside, &out);
                    return Err(ResultError::io(&out)(source).into());
                }
                // A newer result has the name; the old one is of no use to anybody.
                _ => {
                    let _ = fs::remove_dir_all(&aside);
                }
            }
            if renamed.is_ok() {
                break;
            }
        }
        let parent = parent(&out);
        self.working.keep();
        sync(parent).map_err(ResultError::io(parent))?;
        Ok(out)
    }
}

fn parent(out: &Path) -> &Path {
    match out.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// A rename is on disk only once its folder is.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Whether a rename failed because its target exists.
fn is_taken(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    matches!(
        error.kind(),
        AlreadyExists | DirectoryNotEmpty | NotADirectory
    )
}

/// An empty folder may be replaced; a folder with nothing but a result of ours only if `force` is set.
fn may_be_replaced(out: &Path, force: bool) -> Result<(), ExecuteError> {
    let in_the_way = |reason: String| ExecuteError::InTheWay {
        path: out.to_owned(),
        reason,
    };
    let entries = match fs::read_dir(out) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if out.is_symlink() {
                return Err(in_the_way("it is a dangling symbolic link".into()));
            }
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(in_the_way("it is a file".into()));
        }
        Err(source) => return Err(ResultError::io(out)(source).into()),
    };
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Result<Vec<String>, io::Error> = names.collect();
    let names = names.map_err(ResultError::io(out))?;
    if names.is_empty() {
        return Ok(());
    }
    let foreign = names.iter().find(|name| !is_ours(name));
    let is_result = |name: &String| name == RESULT_FILE || name == SUMMARY_FILE;
    match foreign {
        _ if !names.iter().any(is_result) => {
            Err(in_the_way("it is a folder that holds no result".into()))
        }
        _ if !force => Err(ExecuteError::Exists {
            path: out.to_owned(),
        }),
        Some(foreign) => Err(in_the_way(format!(
            "beside a result it holds `{foreign}`, which would be deleted"
        ))),
        None => Ok(()),
    }
}

fn is_ours(name: &str) -> bool {
    const FILES: [&str; 9] = [
        RESULT_FILE,
        SUMMARY_FILE,
        EXPERIMENT_FILE,
        FLOWS_FILE,
        LINKS_FILE,
        REPORT_FILE,
        PLOTS_FOLDER,
        CAPTURES_FOLDER,
        PROGRAMS_FOLDER,
    ];
    let is_seed = |name: &str| {
        name.strip_prefix("seed-")
            .is_some_and(|seed| seed.parse::<u64>().is_ok())
    };
    FILES.contains(&name) || is_seed(name)
}
