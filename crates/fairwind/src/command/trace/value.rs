//! Values of options, in the units that people write.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use fairwind_scenario::units_text::{self, UnitError};
use fairwind_trace::session::MIN_INTERVAL;

const OWN_NAMESPACE: &str = "/proc/self/ns/net";

fn words(error: UnitError) -> String {
    format!("{}; {}", error.message, error.help)
}

/// Parses a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let duration = units_text::duration(text).map_err(words)?;
    Ok(Duration::from_nanos(duration.as_nanos()))
}

/// Parses a time between samples.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < MIN_INTERVAL {
        return Err("the shortest interval is 1ms; --every-ack gives more".to_owned());
    }
    Ok(interval)
}

/// Parses the size of the ring buffer, bytes.
pub(crate) fn buffer(text: &str) -> Result<u32, String> {
    let bytes = units_text::bytes(text).map_err(words)?;
    match u32::try_from(bytes.0) {
        Ok(bytes) if (4096..=1 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("from 4KiB to 1GiB are possible".to_owned()),
    }
}

/// A network namespace: its inode, or a file that refers to it.
pub(crate) fn namespace(text: &str) -> Result<u32, String> {
    if let Ok(inode) = text.parse() {
        return Ok(inode);
    }
    let file = look(text, fs::metadata(text))?;
    let own = look(OWN_NAMESPACE, fs::metadata(OWN_NAMESPACE))?;
    // All namespaces are files of one file system.
    match u32::try_from(file.ino()) {
        Ok(inode) if file.dev() == own.dev() => Ok(inode),
        _ => Err(format!("{text} is not a network namespace")),
    }
}

/// The inode of a control group's folder (version 2).
pub(crate) fn cgroup(text: &str) -> Result<u64, String> {
    let folder = look(text, fs::metadata(text))?;
    if Path::new(text).join("cgroup.procs").exists() {
        Ok(folder.ino())
    } else {
        Err(format!("{text} is not a control group"))
    }
}

fn look(path: &str, metadata: io::Result<fs::Metadata>) -> Result<fs::Metadata, String> {
    metadata.map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_an_inode_or_its_file() {
        let own = fs::metadata(OWN_NAMESPACE).unwrap().ino();
        assert_eq!(namespace(OWN_NAMESPACE), Ok(own as u32));
        assert_eq!(namespace("4026531840"), Ok(4_026_531_840));
        assert_eq!(
            namespace("/dev/null"),
            Err("/dev/null is not a network namespace".to_owned())
        );
    }

    #[test]
    fn a_folder_that_is_no_control_group_is_refused() {
        assert_eq!(
            cgroup("/dev"),
            Err("/dev is not a control group".to_owned())
        );
        assert!(
            cgroup("/nowhere")
                .unwrap_err()
                .starts_with("/nowhere: No such")
        );
    }
}
