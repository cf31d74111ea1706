//! `fairwind chmod`: sets permissions on a server.

use clap::Args;

use super::remote::{Remote, selections};
use super::transfer::Reach;
use crate::failure::Failure;

/// Set permissions of files on an FTP server (SITE CHMOD)
#[derive(Args)]
#[command(after_help = "\
Examples:
  fairwind chmod 640 ftp://alice@ftp.example.org/run/one.h5
  fairwind chmod 755 'ftp://alice@ftp.example.org/bin/*'")]
pub(crate) struct Chmod {
    /// Three octal digits, for the owner, the group and others
    #[arg(value_parser = mode)]
    mode: u32,
    /// URLs of one server and user; with patterns if wanted
    #[arg(required = true, value_name = "URL")]
    urls: Vec<String>,
    #[command(flatten)]
    reach: Reach,
}

impl Chmod {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let selections = selections(&self.urls)?;
        let mut remote = Remote::of(&selections, &self.reach)?;
        for found in remote.find(&selections)? {
            let place = found.place;
            let connection = &mut remote.connection;
            let changed = connection.with(|session| session.change_mode(&place.path, self.mode));
            remote.judge(&place, changed)?;
        }
        remote.end()
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let is_octal = text.len() == 3 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(text, 8) {
        Ok(mode) if is_octal => Ok(mode),
        _ => Err("three octal digits are wanted, such as 644".to_owned()),
    }
}
