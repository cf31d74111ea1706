//! The file system in which programs and maps of eBPF outlive who has loaded them (bpf(2), `BPF_OBJ_PIN`).

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat, statfs};

use crate::sysctl::mount_points;

/// Where it is mounted by convention.
const USUAL: &str = "/sys/fs/bpf";
/// `BPF_FS_MAGIC` of include/uapi/linux/magic.h.
const MAGIC: u32 = 0xcafe_4a11;

/// Why nothing can be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBpfFileSystem {
    /// There is none.
    #[error("no BPF file system is mounted: mount -t bpf bpf {USUAL}")]
    NotMounted,
    /// This process can make no files in it; each mount point with the reason.
    #[error("no BPF file system can be written to: {}", .0.join("; "))]
    NotWritable(Vec<String>),
}

/// The mount point of the one in which this process can make files: the usual one, if it can there.
///
/// # Errors
///
/// If there is none, as this process sees it.
pub fn bpf_file_system() -> Result<PathBuf, NoBpfFileSystem> {
    first(mount_points("bpf"), is_writable)
}

/// The first of these mount points, but the usual one before them, that is writable.
fn first(
    mut places: Vec<PathBuf>,
    is_writable: impl Fn(&Path) -> io::Result<()>,
) -> Result<PathBuf, NoBpfFileSystem> {
    places.sort_by_key(|place| place != Path::new(USUAL));
    places.dedup();
    let mut tried = Vec::new();
    for place in places {
        match is_writable(&place) {
            Ok(()) => return Ok(place),
            Err(error) => tried.push(format!("{}: {error}", place.display())),
        }
    }
    match tried.is_empty() {
        true => Err(NoBpfFileSystem::NotMounted),
        false => Err(NoBpfFileSystem::NotWritable(tried)),
    }
}

fn is_writable(place: &Path) -> io::Result<()> {
    if statfs(place)?.f_type as u32 != MAGIC {
        return Err(io::Error::other("another file system is mounted over it"));
    }
    let access = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(CWD, place, access, AtFlags::EACCESS)?)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// Where only these are writable.
    fn found(places: &[&str], writable: &[&str]) -> Result<String, String> {
        let is_writable = |place: &Path| match writable.contains(&place.to_str().unwrap()) {
            true => Ok(()),
            false => Err(Errno::ROFS.into()),
        };
        let found = first(places.iter().map(PathBuf::from).collect(), is_writable);
        let found = found.map(|place| place.display().to_string());
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn the_usual_one_comes_first_and_one_that_cannot_be_written_to_is_none() {
        let places = ["/run/bpf", "/sys/fs/bpf", "/mnt"];
        assert_eq!(found(&places, &places).unwrap(), "/sys/fs/bpf");
        assert_eq!(found(&places, &["/mnt", "/run/bpf"]).unwrap(), "/run/bpf");
        let read_only = "Read-only file system (os error 30)";
        assert_eq!(
            found(&places[..2], &[]).unwrap_err(),
            format!(
                "no BPF file system can be written to: /sys/fs/bpf: {read_only}; /run/bpf: {read_only}"
            )
        );
        assert_eq!(
            found(&[], &[]).unwrap_err(),
            "no BPF file system is mounted: mount -t bpf bpf /sys/fs/bpf"
        );
    }

    #[test]
    fn what_is_no_bpf_file_system_is_not_taken_for_one() {
        let said = is_writable(Path::new("/proc")).unwrap_err().to_string();
        assert_eq!(said, "another file system is mounted over it");
    }
}
