//! Sysctls and mount points.

use std::path::PathBuf;
use std::{fs, io};

/// The value of a sysctl such as `net.core.rmem_max`; `None` if this kernel or network namespace does
/// not have it.
pub fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(path(name)).ok()?;
    Some(text.trim().to_owned())
}

/// The numbers of a sysctl such as `net.ipv4.tcp_rmem`; `None` if it does not exist or its value is not
/// a list of numbers.
pub fn sysctl_numbers(name: &str) -> Option<Vec<u64>> {
    let text = sysctl(name)?;
    let numbers = text.split_whitespace().map(str::parse);
    numbers.collect::<Result<_, _>>().ok()
}

/// Sets a sysctl such as `net.ipv4.tcp_rmem`; those of `net` in the network namespace of the calling
/// thread.
///
/// # Errors
///
/// If this kernel or network namespace does not have it, or refuses the value.
pub fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    fs::write(path(name), value)
}

fn path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}

/// The first mount point of a file system of type `cgroup2` or another, as this process sees it.
pub fn mounted(file_system: &str) -> Option<PathBuf> {
    mount_points(file_system).into_iter().next()
}

/// All mount points of file systems of this type, in their order.
pub fn mount_points(file_system: &str) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    parse(&mounts, file_system).map(PathBuf::from).collect()
}

/// The mount points in the text of `/proc/self/mounts`: source, mount point, type, options.
fn parse<'a>(mounts: &'a str, file_system: &str) -> impl Iterator<Item = &'a str> {
    mounts.lines().filter_map(move |line| {
        let mut words = line.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == file_system).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_by_its_dotted_name() {
        assert_eq!(sysctl("kernel.ostype").as_deref(), Some("Linux"));
        assert_eq!(sysctl("net.ipv4.no_such_setting"), None);
        assert_eq!(sysctl_numbers("net.ipv4.tcp_rmem").unwrap().len(), 3);
        assert_eq!(sysctl_numbers("kernel.ostype"), None);
    }

    #[test]
    fn a_mount_is_found_by_its_type() {
        let mounts = "proc /proc proc rw 0 0\n\
                      none /sys/fs/cgroup cgroup2 rw 0 0\n\
                      bpf /run/bpf bpf rw 0 0\n\
                      bpf /sys/fs/bpf bpf rw 0 0\n";
        let of = |file_system: &str| parse(mounts, file_system).collect::<Vec<_>>();
        assert_eq!(of("bpf"), ["/run/bpf", "/sys/fs/bpf"]);
        assert_eq!(of("cgroup2"), ["/sys/fs/cgroup"]);
        assert!(of("nfs").is_empty());
    }
}
