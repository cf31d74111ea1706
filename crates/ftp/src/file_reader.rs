//! How files are read that are named in a configuration.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

type Read = dyn Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync;

/// Reads texts, certificates and keys: directly, or through a process with more rights.
#[derive(Clone, Default)]
pub struct FileReader(Option<Arc<Read>>);

impl FileReader {
    /// Reads them with `read`.
    pub fn by(read: impl Fn(&Path) -> io::Result<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(read)))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// If it cannot be read; the error names it.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let read = match &self.0 {
            Some(read) => read(path),
            None => std::fs::read(path),
        };
        read.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileReader").finish_non_exhaustive()
    }
}
