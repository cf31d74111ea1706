//! Transfers between two servers: one of them listens (EPSV, PASV), the other connects to it (EPRT, PORT),
//! and the bytes do not pass through this host (RFC 959 section 5.2 and figure 3).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::both_ends::{Refusal, at_once, monitor_size, wait_for_final_replies};
use super::checksum::Method;
use super::local::partial_name;
use super::moving::retransmits;
use super::place;
use super::retrieve::shown;
use super::retry::Pauses;
use super::session::Original;
use super::third_party_tls::{End, TlsClientBy, introduce, tls_clients};
use super::{Checksum, ChecksumPolicy, ClientError, Connection, FileReport, Session, Verification};

/// Sends the file at one connection's place to the other's.
///
/// # Errors
/// As [`third_party_file`].
pub fn third_party(
    source: &mut Connection,
    destination: &mut Connection,
    number: usize,
) -> Result<FileReport, ClientError> {
    let from = source.place().path.clone();
    let to = destination.place().path.clone();
    third_party_file(source, destination, &from, &to, number)
}

/// Sends a file from one server to another.
///
/// # Errors
/// If a server refuses, or the copy cannot be completed or verified. The bytes sent so far stay under
/// `.NAME.part` at the destination unless they are wrong.
pub fn third_party_file(
    source: &mut Connection,
    destination: &mut Connection,
    from: &[u8],
    to: &[u8],
    number: usize,
) -> Result<FileReport, ClientError> {
    let (from, to) = (from.to_vec(), to.to_vec());
    let partial = place::beside(&to, destination.options().in_place, partial_name);
    let report = FileReport::new(
        shown(source.place(), &from),
        shown(destination.place(), &to),
    );
    let mut copy = Copy {
        from,
        to,
        partial,
        number,
        report,
        expected: false,
        original: None,
        sent: None,
        continued: false,
        reversed: false,
        tls_client: source.tls_client,
    };
    let options = source.options().clone();
    let mut pauses = Pauses::new(&options);
    loop {
        let is_retried = source.is_retried() && destination.is_retried();
        let copied = copy.attempt(source, destination);
        source.tls_client = copy.tls_client;
        let Err(error) = copied else {
            return Ok(copy.report);
        };
        source.drop_session();
        destination.drop_session();
        let is_unreached = source.is_unreached() || destination.is_unreached();
        if is_unreached && !is_retried {
            return Err(error);
        }
        let waited = pauses.wait(error, Some(&mut copy.report));
        waited.inspect_err(|error| {
            source.give_up(error);
            destination.give_up(error);
        })?;
    }
}

struct Copy {
    from: Vec<u8>,
    to: Vec<u8>,
    partial: Vec<u8>,
    number: usize,
    report: FileReport,
    /// The size has been announced in the progress reports.
    expected: bool,
    /// The source as it was in the last attempt.
    original: Option<Original>,
    /// What this run has sent of that source; `None` while the destination may have bytes of another.
    sent: Option<Sent>,
    continued: bool,
    /// The source listens and the destination connects.
    reversed: bool,
    /// Which server is to be the TLS client, as far as that is known.
    tls_client: Option<End>,
}

/// The last transfer of this run to the partial file at the destination. The bytes before it are of the same source.
struct Sent {
    first: u64,
    /// The size of what was there, of whatever source, if it was to be replaced.
    replaced: Option<u64>,
    /// The destination has said that it stores.
    begun: bool,
}

impl Sent {
    /// Whether what the destination has now are bytes of the source only.
    fn is_all_of(&self, present: u64) -> bool {
        match self.begun {
            true => present >= self.first && self.replaced != Some(present),
            false => self.first > 0 && present == self.first,
        }
    }
}

impl Copy {
    fn attempt(
        &mut self,
        source: &mut Connection,
        destination: &mut Connection,
    ) -> Result<(), ClientError> {
        let monitor = destination.another();
        let (source, destination) = at_once(|| source.session(), || destination.session());
        let (source, destination) = (source?, destination?);
        let (original, present) = at_once(
            || {
                source.can_read(&self.from)?;
                Original::ask(source, &self.from)
            },
            || {
                destination.can_write(&self.to)?;
                destination.size(&self.partial)
            },
        );
        let (original, present) = (original?, present?);
        if original.size.is_none() {
            // Avoids setting up a transfer of a file that does not exist.
            source.exists(&self.from)?;
        }
        if let (Some(size), false) = (original.size, std::mem::replace(&mut self.expected, true)) {
            source.options.progress.expect(size);
        }
        let methods = common(source, destination)?;
        let is_wanted = destination.options.resume && !destination.options.in_place;
        let first = self.first(original, present, is_wanted && methods.is_some());
        if self.report.interruptions.is_empty() {
            self.report.resumed_at = first;
        }
        let arrived = if original.size != Some(first) || first == 0 {
            self.transfer(source, destination, &original, first, &monitor)?
        } else {
            Some(first)
        };
        self.verify(source, destination, &original, arrived, methods)
    }

    /// The byte to continue from, given what is `present` at the destination. Bytes of this run are those of the source if
    /// it has not changed since; whether older ones are, only a checksum shows.
    fn first(&mut self, original: Original, present: Option<u64>, by_checksum: bool) -> u64 {
        let before = self.original.replace(original);
        let is_same = before.is_none_or(|before| before == original);
        if !is_same {
            self.sent = None;
        }
        let first = present
            .zip(original.size)
            .filter(|(present, size)| present <= size)
            .map_or(0, |(present, _)| present);
        let is_sent = self.sent.as_ref().is_some_and(|sent| sent.is_all_of(first));
        self.continued = first > 0 && (is_sent || (by_checksum && is_same));
        let first = if self.continued { first } else { 0 };
        self.sent = (first == 0 || is_sent).then_some(Sent {
            first,
            replaced: present.filter(|_| first == 0),
            begun: false,
        });
        first
    }

    /// Transfers the missing bytes; returns the size at the destination afterwards, if the server says. Which server can be
    /// the TLS client of the other, and is believed, only a transfer shows.
    fn transfer(
        &mut self,
        source: &mut Session,
        destination: &mut Session,
        original: &Original,
        first: u64,
        monitor: &Connection,
    ) -> Result<Option<u64>, ClientError> {
        let tls_clients = tls_clients(source, destination, self.tls_client)?;
        if let Some(size) = original.size {
            destination.announce(size)?;
        }
        let before = self.report.bytes;
        let (one, other) = (tls_clients.first().copied(), tls_clients.get(1).copied());
        let moved = self.transfer_with(source, destination, one, first, monitor);
        let is_exchangeable = other.is_some() && self.report.bytes == before;
        self.tls_client = match &moved {
            // Some servers end the session when they refuse a certificate: then the next attempt begins with the other.
            Err(_) if is_exchangeable => other,
            Ok(Err(refusal)) if is_exchangeable && refusal.is_of_connection => other,
            _ => one,
        };
        let refusal = match moved? {
            Ok(there) => return Ok(there),
            Err(refusal) if is_exchangeable && refusal.is_of_connection => refusal,
            Err(refusal) => return Err(refusal.error),
        };
        if let Some(size) = original.size {
            destination.announce(size)?;
        }
        let moved = self.transfer_with(source, destination, other, first, monitor)?;
        moved.map_err(|second| ClientError::Failed {
            transient: second.error.is_transient(),
            what: format!(
                "{}; with the parts of TLS exchanged: {}",
                refusal.error, second.error
            ),
        })
    }

    /// The same with one of the servers as the TLS client, or in clear.
    fn transfer_with(
        &mut self,
        source: &mut Session,
        destination: &mut Session,
        tls_client: Option<End>,
        first: u64,
        monitor: &Connection,
    ) -> Result<Result<Option<u64>, Refusal>, ClientError> {
        if let Some(tls_client) = tls_client {
            match introduce(source, destination, tls_client) {
                Err(error @ ClientError::Refused { .. }) => {
                    let is_of_connection = true;
                    return Ok(Err(Refusal {
                        error,
                        is_of_connection,
                    }));
                }
                introduced => introduced?,
            }
        }
        for extension in source.options.extensions.clone() {
            extension.third_party(source, destination)?;
        }
        source.undo_stale()?;
        destination.undo_stale()?;
        let began = Instant::now();
        self.join(source, destination, tls_client)?;
        source.restart_at(first)?;
        destination.restart_at(first)?;
        destination.control.send("STOR", &self.partial)?;
        source.control.send("RETR", &self.from)?;
        let seen = Arc::new(AtomicU64::new(first));
        let options = source.options.clone();
        options.progress.begins(self.number, first);
        let (number, progress) = (self.number, Arc::clone(&options.progress));
        let monitoring = monitor_size(
            monitor.another(),
            self.partial.clone(),
            Arc::clone(&seen),
            move |at| progress.reaches(number, at),
        );
        let mut begun = false;
        let result = wait_for_final_replies(source, destination, &seen, &options, &mut begun);
        let ended = Instant::now();
        drop(monitoring);
        let there = match &result {
            Ok(Ok(_)) => destination.size(&self.partial),
            _ => Ok(None),
        };
        let told = there.as_ref().ok().copied().flatten();
        begun |= matches!(&result, Ok(Ok(_)));
        let arrived = match begun {
            true => told.unwrap_or_else(|| seen.load(Ordering::Acquire)),
            // What was there before is no progress.
            false => first,
        };
        if let Some(sent) = &mut self.sent {
            sent.begun |= begun;
        }
        self.report
            .moved(first, arrived.saturating_sub(first), began, ended);
        let sent = match result? {
            Ok([sent, _]) => sent,
            Err(refusal) => return Ok(Err(refusal)),
        };
        self.report.retransmits = retransmits(&sent).or(self.report.retransmits);
        options.progress.reaches(self.number, arrived);
        there.map(Ok)
    }

    /// Has one server listen and the other connect; the destination listens unless one of them refuses that, or only the
    /// source can be the TLS client, by listening.
    fn join(
        &mut self,
        source: &mut Session,
        destination: &mut Session,
        tls_client: Option<End>,
    ) -> Result<(), ClientError> {
        let listens = |session: &Session| session.tls_client_by() == Some(TlsClientBy::Listening);
        let listening = match tls_client {
            Some(End::Source) if listens(source) => Some(End::Source),
            Some(End::Destination) if listens(destination) => Some(End::Destination),
            _ => None,
        };
        let is_reversed = match listening {
            Some(end) => end == End::Source,
            None => self.reversed,
        };
        let (waiting, other) = match is_reversed {
            true => (source, destination),
            false => (destination, source),
        };
        let refusal = match connect(waiting, other, listening.is_some())? {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        let mut both = refusal.to_string();
        if listening.is_none() {
            let Err(refusal) = connect(other, waiting, false)? else {
                self.reversed = !self.reversed;
                return Ok(());
            };
            both = format!("{both}; {refusal}");
        }
        Err(ClientError::Failed {
            what: format!(
                "neither server connects to the other: {both}. Both have to allow data \
                 connections with strangers, or with each other"
            ),
            transient: false,
        })
    }

    fn verify(
        &mut self,
        source: &mut Session,
        destination: &mut Session,
        original: &Original,
        there: Option<u64>,
        methods: Option<(Method, Method)>,
    ) -> Result<(), ClientError> {
        self.report.size = there.or(original.size).unwrap_or(self.report.bytes);
        if let (Some(there), Some(size)) = (there, original.size)
            && there < size
        {
            // Both servers took this for the whole: nobody knows what it is.
            self.sent = None;
            let what = format!("{there} of {size} bytes have arrived");
            return Err(destination.data_error(what));
        }
        let too_long = there
            .zip(original.size)
            .filter(|(there, size)| there > size);
        let compared = match too_long {
            Some((there, size)) => Err(format!("it has {there} bytes of {size}")),
            None => self.compare(source, destination, original, methods)?,
        };
        match compared {
            Ok(verification) => self.report.checksum = verification,
            Err(why) => {
                destination.delete(&self.partial)?;
                let text = format!("{} is not what was sent: {why}", self.report.destination);
                return Err(if self.continued {
                    // The next attempt finds nothing to resume.
                    ClientError::transient(text)
                } else {
                    ClientError::Differs(text)
                });
            }
        }
        if self.partial != self.to {
            destination.rename(&self.partial, &self.to)?;
        }
        match original.modified {
            Some(modified) => destination.set_modified(&self.to, modified),
            None => Ok(()),
        }
    }

    fn compare(
        &self,
        source: &mut Session,
        destination: &mut Session,
        original: &Original,
        methods: Option<(Method, Method)>,
    ) -> Result<Result<Verification, String>, ClientError> {
        let Some((here, there)) = methods else {
            return Ok(Ok(source.without_method()));
        };
        let algorithm = here.algorithm().name();
        let (sent, arrived) = at_once(
            || source.remote_checksum(here, &self.from, original.size),
            || destination.remote_checksum(there, &self.partial, original.size),
        );
        Ok(match (sent?, arrived?) {
            (Ok(sent), Ok(arrived)) if sent == arrived => Ok(Verification::Verified(Checksum {
                algorithm,
                value: sent,
            })),
            (Ok(sent), Ok(arrived)) => Err(format!(
                "its {algorithm} was {sent} and has become {arrived}"
            )),
            (Err(reply), _) | (_, Err(reply))
                if source.options.checksum == ChecksumPolicy::Required =>
            {
                Err(format!("there is no {algorithm} of it: {reply}"))
            }
            (Err(reply), _) | (_, Err(reply)) => Ok(Verification::Refused { reply }),
        })
    }
}

/// The strongest checksum that both servers offer.
fn common(
    source: &Session,
    destination: &Session,
) -> Result<Option<(Method, Method)>, ClientError> {
    if source.options.checksum == ChecksumPolicy::Off {
        return Ok(None);
    }
    let there = destination.methods();
    let pair = source.methods().into_iter().find_map(|here| {
        let same = there
            .iter()
            .find(|method| method.algorithm() == here.algorithm());
        same.map(|method| (here, *method))
    });
    match pair {
        None if source.options.checksum == ChecksumPolicy::Required => {
            Err(ClientError::Differs(format!(
                "{} and {} make no checksum that both know",
                source.server(),
                destination.server()
            )))
        }
        pair => Ok(pair),
    }
}

/// Has `waiting` listen, and if so be the TLS client of who connects, and sends its address to `other`. The inner error is a server's refusal.
fn connect(
    waiting: &mut Session,
    other: &mut Session,
    as_tls_client: bool,
) -> Result<Result<(), ClientError>, ClientError> {
    let address = match passive_address(waiting, other, as_tls_client) {
        Err(refusal @ ClientError::Refused { .. }) => return Ok(Err(refusal)),
        address => address?,
    };
    let reply = other.tell_address(address)?;
    Ok(other.control.accepted(reply).map(drop))
}

/// The address of `waiting` as `other` can reach it: the one at which this host reaches it, unless that is a
/// loopback address.
fn passive_address(
    waiting: &mut Session,
    other: &Session,
    as_tls_client: bool,
) -> Result<SocketAddr, ClientError> {
    let known = waiting.control.peer;
    let hidden = known.ip().is_loopback() && !other.control.peer.ip().is_loopback();
    // Behind a proxy only the server knows its address.
    let is_told = waiting.control.way.is_proxied() || (hidden && known.is_ipv4());
    let told = match (as_tls_client, is_told) {
        (true, _) => {
            let reply = waiting.ask_passive_as_tls_client()?;
            waiting.passive_in(reply)?
        }
        (false, true) => waiting.ask_pasv()?,
        (false, false) => waiting.ask_passive()?,
    };
    Ok(match is_told {
        true => told,
        false => SocketAddr::new(known.ip(), told.port()),
    })
}
