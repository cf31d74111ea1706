//! What goes wrong with pins, and what would help.

use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::ErrorKind;

use super::About;
use crate::kernel::{Holder, LoadError};
use crate::native::ParameterError;

/// A pinned control that was not loaded, changed, shown or taken out.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// It was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A parameter is wrong.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// The name is not one that the kernel and a BPF file system both take.
    #[error("`{name}` is no name for a pinned control: 1 to 15 letters, digits or `_`")]
    BadName {
        /// The name that was asked for.
        name: String,
    },
    /// Fairwind has it in the kernel already.
    #[error("`{name}` is already loaded{}: replace it, or unload it first", build(.about))]
    AlreadyPinned {
        /// The name in the kernel.
        name: String,
        /// Which build it is.
        about: Option<Box<About>>,
    },
    /// It is not in the kernel, or not by a pin of this folder.
    #[error("`{name}` is not loaded")]
    NotPinned {
        /// The name in the kernel.
        name: String,
    },
    /// The settings in the kernel are not laid out as this fairwind knows them.
    #[error(
        "`{name}` was loaded by another fairwind{}, whose parameters are not these: replace it",
        build(.about)
    )]
    OtherBuild {
        /// The name in the kernel.
        name: String,
        /// Which build it is.
        about: Option<Box<About>>,
    },
    /// Its pins are gone, yet it stays.
    #[error("the pins of `{name}` are removed, but it stays in the kernel: {holder}")]
    Held {
        /// The name in the kernel.
        name: String,
        /// Who keeps it.
        holder: Holder,
    },
    /// Pins live in a BPF file system only.
    #[error(
        "{} is not in a BPF file system: mount one with `mount -t bpf bpf /sys/fs/bpf`",
        folder.display()
    )]
    NoBpfFs {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or folder of the pins.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
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
        match error.kind() {
            ErrorKind::PermissionDenied => LoadError::not_permitted().into(),
            _ => Self::File {
                path: path.to_owned(),
                error: io::Error::other(error.to_string()),
            },
        }
    }
}

fn build(about: &Option<Box<About>>) -> String {
    match about {
        Some(about) if about.is_this_build() => String::new(),
        Some(about) => format!(" (from another build, fairwind {})", about.version),
        None => " (from another build)".to_owned(),
    }
}
