//! Shared by the commands on names of a server: `ls`, `rm`, `mkdir`, `rmdir`, `mv`, `chmod`, `du`.

use std::sync::Arc;

use fairwind_ftp::client::{ClientError, Connection, Match, Place, Selection};

use super::transfer::{self, Reach};
use crate::failure::{Failure, all_of};
use crate::progress::ByteBar;

/// A connection to the server of some URLs, and what went wrong with single names so far.
pub(crate) struct Remote {
    pub connection: Connection,
    bar: Arc<ByteBar>,
    failures: Vec<String>,
}

impl Remote {
    /// A connection to the server of these URLs, which has to be the same.
    pub(crate) fn of(selections: &[Selection], reach: &Reach) -> Result<Self, Failure> {
        let bases: Vec<Place> = selections.iter().map(|one| one.base().clone()).collect();
        let bar = transfer::begin()?;
        let place = transfer::server(&bases)?.clone();
        Ok(Self {
            connection: transfer::connection(place, reach.options(&bar))?,
            bar,
            failures: Vec::new(),
        })
    }

    /// All that the URLs name; nothing is done if one of them names nothing.
    pub(crate) fn find(&mut self, selections: &[Selection]) -> Result<Vec<Match>, Failure> {
        let found = selections.iter().map(|one| one.find(&mut self.connection));
        let found: Vec<Vec<Match>> = found.collect::<Result<_, _>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Records what concerns this name only; fails if the work cannot go on.
    pub(crate) fn judge(
        &mut self,
        place: &Place,
        result: Result<(), ClientError>,
    ) -> Result<(), Failure> {
        match result {
            Err(error @ (ClientError::Refused { .. } | ClientError::Name(_))) => {
                self.fail(format!("{place}: {error}"));
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Records a failure; the work goes on.
    pub(crate) fn fail(&mut self, what: String) {
        self.failures.push(what);
    }

    /// Ends the session; fails if anything did.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.connection.close();
        self.bar.clear();
        all_of(self.failures)
    }
}

/// What these URLs select.
pub(crate) fn selections(urls: &[String]) -> Result<Vec<Selection>, Failure> {
    let selections = urls.iter().map(|url| url.parse::<Selection>());
    Ok(selections.collect::<Result<_, _>>()?)
}

/// The location of a URL without patterns.
pub(crate) fn single(url: &str) -> Result<Place, Failure> {
    Ok(url.parse::<Selection>()?.single()?)
}
