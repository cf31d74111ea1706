//! Errors of pinned controls.

use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::ErrorKind;

use super::About;
use crate::kernel::{Holder, LoadError};
use crate::native::ParameterError;

/// Why a pinned control was not loaded, changed, shown or unloaded, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The control was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The control has no such parameter, or its value is out of range.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The kernel or the BPF file system does not accept the name.
    #[error(
        "`{name}` is not a name for a pinned congestion control: 1 to 15 letters, digits or `_`"
    )]
    BadName {
        /// The requested name.
        name: String,
    },
    /// A control is already pinned under this name.
    #[error("`{name}` is already loaded{}: replace it, or unload it first", build(.about))]
    AlreadyPinned {
        /// The name in the kernel.
        name: String,
        /// Its description, if it has one.
        about: Option<Box<About>>,
    },
    /// No control is pinned under this name in this folder.
    #[error("`{name}` is not loaded")]
    NotPinned {
        /// The name in the kernel.
        name: String,
    },
    /// The settings in the kernel have another layout than in this build.
    #[error(
        "`{name}` was loaded by another fairwind{}, whose parameters are not these: replace it",
        build(.about)
    )]
    OtherBuild {
        /// The name in the kernel.
        name: String,
        /// Its description, if it has one.
        about: Option<Box<About>>,
    },
    /// The pins are removed, but the control stays in the kernel.
    #[error("the pins of `{name}` are removed, but it stays in the kernel: {holder}")]
    Held {
        /// The name in the kernel.
        name: String,
        /// What holds it.
        holder: Holder,
    },
    /// The folder is not in a BPF file system, which pins require.
    #[error(
        "{} is not in a BPF file system: mount one with `mount -t bpf bpf /sys/fs/bpf`",
        folder.display()
    )]
    NoBpfFs {
        /// The folder.
        folder: PathBuf,
    },
    /// An operation on a file or folder of the pins failed.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

impl PinError {
    pub(super) fn at(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => LoadError::not_permitted().into(),
            _ => Self::File {
                path: path.to_owned(),
                error,
            },
        }
    }

    pub(super) fn kernel(path: &Path, error: &libbpf_rs::Error) -> Self {
        let error = match error.kind() {
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied.into(),
            _ => io::Error::other(error.to_string()),
        };
        Self::at(path, error)
    }
}

fn build(about: &Option<Box<About>>) -> String {
    match about {
        Some(about) if about.is_this_build() => String::new(),
        Some(about) => format!(" (from another build, fairwind {})", about.version),
        None => " (from another build)".to_owned(),
    }
}
