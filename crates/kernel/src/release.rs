//! The release of the running kernel.

/// The release of the running kernel, as by `uname -r`.
pub fn release() -> String {
    let names = rustix::system::uname();
    names.release().to_string_lossy().into_owned()
}

/// Major and minor version of a release; `None` if it does not begin with them.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_gives_major_and_minor() {
        assert_eq!(version("6.12.3-amd64"), Some((6, 12)));
        assert_eq!(version("6.1-rc3"), Some((6, 1)));
        assert_eq!(version("linux"), None);
    }
}
