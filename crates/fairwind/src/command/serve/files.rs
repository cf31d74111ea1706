//! The files that the server reopens while it runs: its configuration, its logs, its certificates and keys.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairwind_ftp::server::{Config, FileReader, LogOpener, LogTarget};

use super::keeper::{Keeper, Use};

/// Most bytes of a file that are read: the longest revocation lists have fewer.
const LONGEST: u64 = 64 << 20;

/// Opens them with the rights of the start, which the server itself has given up.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    configuration: Option<PathBuf>,
    /// None if there are no such files.
    keeper: Option<Arc<Keeper>>,
}

impl Files {
    /// Takes the files of this configuration, which was read from `file`. Must be called before there are
    /// threads.
    ///
    /// # Errors
    /// Fails if a path cannot be made absolute, or [`Keeper::start`] fails.
    pub(crate) fn keep(config: &mut Config, file: Option<&Path>) -> io::Result<Self> {
        let configuration = file.map(std::path::absolute).transpose()?;
        let mut files: Vec<(PathBuf, Use)> = Vec::new();
        for log in logs(config) {
            *log = std::path::absolute(&*log)?;
            files.push((log.clone(), Use::Append));
        }
        for text in texts(config) {
            *text = std::path::absolute(&*text)?;
            files.push((text.clone(), Use::Read));
        }
        files.extend(configuration.clone().map(|file| (file, Use::Read)));
        let keeper = if files.is_empty() {
            None
        } else {
            Some(Arc::new(Keeper::start(files)?))
        };
        let kept = Self {
            configuration,
            keeper,
        };
        kept.attach(config)?;
        Ok(kept)
    }

    /// Lets the logs and certificates of another configuration be opened like those of the first; only the same
    /// files can be.
    ///
    /// # Errors
    /// Fails if there is no working directory.
    pub(crate) fn attach(&self, config: &mut Config) -> io::Result<()> {
        for log in logs(config) {
            *log = std::path::absolute(&*log)?;
        }
        for text in texts(config) {
            *text = std::path::absolute(&*text)?;
        }
        if let Some(keeper) = &self.keeper {
            let (logs, files) = (Arc::clone(keeper), Arc::clone(keeper));
            config.log_opener = LogOpener::by(move |path| logs.open(path, Use::Append));
            config.file_reader = FileReader::by(move |path| {
                let mut bytes = Vec::new();
                let file = files.open(path, Use::Read)?;
                file.take(LONGEST + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > LONGEST {
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
                Ok(bytes)
            });
        }
        Ok(())
    }

    /// The text of the configuration file as it is now.
    ///
    /// # Errors
    /// Fails if there is no configuration file, or it cannot be read.
    pub(crate) fn configuration(&self) -> io::Result<String> {
        let (Some(path), Some(keeper)) = (&self.configuration, &self.keeper) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut text = String::new();
        keeper.open(path, Use::Read)?.read_to_string(&mut text)?;
        Ok(text)
    }
}

fn logs(config: &mut Config) -> impl Iterator<Item = &mut PathBuf> {
    let commands = config.command_log.as_mut().and_then(LogTarget::file);
    [
        config.xferlog.as_mut(),
        config.advice_log.as_mut(),
        commands,
    ]
    .into_iter()
    .flatten()
}

/// What is read: texts for clients, certificates, keys and revocation lists.
fn texts(config: &mut Config) -> impl Iterator<Item = &mut PathBuf> {
    let pems = config.tls.iter_mut().flat_map(|tls| {
        let own = [&mut tls.certificate, &mut tls.key];
        own.into_iter()
            .chain(&mut tls.client_ca)
            .chain(&mut tls.client_crl)
            .chain(&mut tls.peer_ca)
    });
    let shown = [&mut config.banner, &mut config.motd];
    let of_hosts = config.host.iter_mut().flat_map(|host| {
        let shown = [&mut host.banner, &mut host.motd];
        let pems = [&mut host.certificate, &mut host.key];
        shown.into_iter().chain(pems).flatten()
    });
    shown.into_iter().flatten().chain(pems).chain(of_hosts)
}
