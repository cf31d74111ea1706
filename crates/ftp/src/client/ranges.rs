//! Downloads of one file over several data connections, each of which brings a range of it (`REST`, and an end when the
//! range is complete).
//!
//! The bytes gather in `.NAME.ranges`, each at its place, with a record behind them of what has come: of which file, and
//! how far each range is. So an interrupted download continues in all ranges, and no other download takes the file,
//! which has gaps, for its own. A connection whose range is complete takes half of what is left of the one that has most
//! left, so that the slowest does not decide. When everything has come, the record is cut off, the whole is verified as any download,
//! and gets its name.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_transfer::Direction;
use parking_lot::Mutex;

use super::ahead::Behind;
use super::checksum::Method;
use super::local::{Partial, partial_name, ranges_name};
use super::moving::{Part, is_about_restart};
use super::retry::Task;
use super::running_checksum::RunningChecksum;
use super::session::Original;
use super::{ClientError, Connection, FileReport, Retrieval, Session};
use crate::protocol::path::one_line;

/// Fewest bytes of a range: for less, another connection is not worth its round trips.
const LEAST: u64 = 1 << 20;
/// Fewest bytes that are left of a range that is divided: each half is worth a login.
const LEAST_DIVIDED: u64 = 4 * LEAST;
/// Most ranges of a file.
const MOST: usize = 64;
/// How often the record is renewed: what `kill -9` costs at most.
const RECORD_INTERVAL: Duration = Duration::from_millis(500);
/// First line of a record.
const HEAD: &str = "fairwind ranges 1";

/// A range of a file, and how far it is.
#[derive(Debug)]
struct Range {
    /// Its number in progress reports.
    number: usize,
    first: u64,
    reach: Mutex<Reach>,
}

#[derive(Debug, Clone, Copy)]
struct Reach {
    /// The next byte to come.
    at: u64,
    /// The byte after the last one.
    end: u64,
}

/// A file that is fetched in ranges.
struct Ranges {
    partial: Partial,
    size: u64,
    note: String,
    /// In the order of their bytes.
    ranges: Mutex<Vec<Arc<Range>>>,
    /// When the record was last written.
    recorded: Mutex<Instant>,
    checksum: Mutex<Option<RunningChecksum>>,
}

/// What the workers share.
struct Shared<'a> {
    retrieval: &'a Retrieval,
    ranges: &'a Ranges,
    original: Original,
    number: usize,
    /// The ranges that nobody has taken.
    open: Mutex<VecDeque<Arc<Range>>>,
    reports: Mutex<Vec<FileReport>>,
    errors: Mutex<Vec<ClientError>>,
    /// The server refuses to start in the middle of a file, or does not do so.
    no_restart: AtomicBool,
}

/// A range being fetched.
struct Fetch<'a> {
    shared: &'a Shared<'a>,
    range: &'a Arc<Range>,
    report: FileReport,
    /// The server was cut off when the range was complete.
    was_cut: bool,
}

/// Fetches a file in up to `count` ranges; false if it has to be fetched as a whole: it is small or already begun so, or
/// the server does not tell its size or cannot start in the middle.
///
/// # Errors
/// As [`Retrieval::run`].
pub(super) fn fetch(
    retrieval: &Retrieval,
    connection: &mut Connection,
    number: usize,
    target: &Path,
    count: NonZeroUsize,
    report: &mut FileReport,
) -> Result<bool, ClientError> {
    if is_begun_as_a_whole(target, connection) {
        return Ok(false);
    }
    let remote = &retrieval.remote;
    let (original, method, restarts) = connection.with(|session| {
        session.can_read(remote)?;
        let original = Original::ask(session, remote)?;
        Ok((original, session.method()?, session.restarts()?))
    })?;
    let (Some(size), true) = (original.size, restarts) else {
        return Ok(false);
    };
    let most = usize::try_from(size / LEAST).map_or(MOST, |most| most.min(MOST));
    let count = count.get().min(most);
    if count < 2 {
        return Ok(false);
    }
    let settled = connection.settled();
    let partial = Partial::open_as(target, ranges_name)?.unless_settled(&settled)?;
    if retrieval.size().is_none() {
        connection.options().progress.expect(size);
    }
    let resume = connection.options().resume && (original.modified.is_some() || method.is_some());
    let note = original.note().unwrap_or_else(|| format!("{size} bytes"));
    let mut ranges = Ranges::open(partial, size, note, count, resume)?;
    report.resumed_at = ranges.present();
    report.size = size;
    report
        .figures
        .insert("ranges".into(), ranges.all().len() as f64);
    let mut continued = report.resumed_at > 0;
    loop {
        ranges.watch(method)?;
        let fetched = fetch_all(
            retrieval, connection, number, count, &ranges, original, report,
        );
        let is_empty = ranges.present() == 0;
        match fetched {
            Ok(true) => {}
            Ok(false) => {
                let note = format!(
                    "{}: fetched as a whole, because {} cannot begin in the middle of it",
                    one_line(remote),
                    connection.place().server()
                );
                connection.options().progress.note(&note);
                ranges.partial.discard();
                report.resumed_at = 0;
                report.figures.remove("ranges");
                return Ok(false);
            }
            Err(error) => {
                if is_empty {
                    ranges.partial.discard();
                }
                return Err(error);
            }
        }
        let Err(why) = ranges.verify(remote, connection, method, report)? else {
            break;
        };
        if !continued {
            let here = one_line(target.as_os_str().as_encoded_bytes()).into_owned();
            let server = connection.place().server();
            ranges.partial.discard();
            return Err(ClientError::Differs(format!(
                "{here} is not what {server} has: {why}"
            )));
        }
        let note = format!(
            "{}: starting again, because the partial file was not of this file",
            one_line(remote)
        );
        connection.options().progress.note(&note);
        continued = false;
        ranges.begin_anew(count)?;
    }
    ranges.complete(original, &settled)?;
    Ok(true)
}

/// Whether an ordinary download has left bytes that it can continue.
fn is_begun_as_a_whole(target: &Path, connection: &Connection) -> bool {
    let name = target.file_name().unwrap_or_default();
    let partial = partial_name(name.as_encoded_bytes());
    let partial = std::os::unix::ffi::OsStringExt::from_vec(partial);
    let partial = target.with_file_name::<std::ffi::OsString>(partial);
    connection.options().resume && std::fs::metadata(partial).is_ok_and(|facts| facts.len() > 0)
}

/// Fetches what is missing; false if the server cannot start in the middle.
fn fetch_all(
    retrieval: &Retrieval,
    connection: &mut Connection,
    number: usize,
    count: usize,
    ranges: &Ranges,
    original: Original,
    report: &mut FileReport,
) -> Result<bool, ClientError> {
    let before = ranges.present();
    let all = ranges.all();
    let open: VecDeque<Arc<Range>> = all
        .iter()
        .filter(|range| range.left() > 0)
        .cloned()
        .collect();
    let workers = open.len().max(count);
    let others: Vec<Connection> = (1..workers).map(|_| connection.another()).collect();
    let shared = Shared {
        retrieval,
        ranges,
        original,
        number,
        open: Mutex::new(open),
        reports: Mutex::default(),
        errors: Mutex::default(),
        no_restart: AtomicBool::new(false),
    };
    for range in &all {
        let progress = &connection.options().progress;
        progress.begins(
            part_number(number, range.number),
            range.reach().at - range.first,
        );
    }
    thread::scope(|scope| {
        for mut other in others {
            let shared = &shared;
            scope.spawn(move || {
                if !shared.has_work() {
                    return;
                }
                if let Err(error) = other.session() {
                    let progress = &other.options().progress;
                    progress.note(&format!("fewer ranges at the same time: {error}"));
                    return;
                }
                shared.work(&mut other);
                other.close();
            });
        }
        shared.work(connection);
    });
    ranges.record();
    let no_restart = shared.no_restart.load(Ordering::Acquire);
    merge(
        report,
        shared.reports.into_inner(),
        ranges.present() - before,
    );
    if no_restart {
        return Ok(false);
    }
    let mut errors = shared.errors.into_inner();
    // That the user stopped explains the others.
    let first = errors
        .iter()
        .position(|error| matches!(error, ClientError::Stopped));
    match errors.is_empty() {
        true => Ok(true),
        false => Err(errors.swap_remove(first.unwrap_or(0))),
    }
}

/// Adds the reports of the ranges, which moved `bytes` together.
fn merge(report: &mut FileReport, parts: Vec<FileReport>, bytes: u64) {
    let began = parts.iter().filter_map(|part| part.began).min();
    let ended = parts.iter().filter_map(|part| part.ended).max();
    for part in parts {
        if let Some(retransmits) = part.retransmits {
            *report.retransmits.get_or_insert(0) += retransmits;
        }
        if let Some(out_of_order) = part.out_of_order {
            *report.out_of_order.get_or_insert(0) += out_of_order;
        }
        let least = report.min_rtt_ms.into_iter().chain(part.min_rtt_ms);
        report.min_rtt_ms = least.reduce(f64::min);
        report.congestion_control = part.congestion_control.or(report.congestion_control.take());
        report.send_buffer = part.send_buffer.or(report.send_buffer);
        report.receive_buffer = part.receive_buffer.or(report.receive_buffer);
        report.control_changes += part.control_changes;
        report.changes.extend(part.changes);
        report.interruptions.extend(part.interruptions);
        report.notes.extend(part.notes);
        for (name, figure) in part.figures {
            report.figures.insert(name, figure);
        }
    }
    if let (Some(began), Some(ended)) = (began, ended) {
        report.moved(0, bytes, began, ended);
    }
}

/// The number of a range in progress reports: that of the file, with the range's above it.
fn part_number(number: usize, index: usize) -> usize {
    number | index << 32
}

impl Shared<'_> {
    /// Whether another connection would have a range to fetch.
    fn has_work(&self) -> bool {
        !self.open.lock().is_empty() || self.ranges.all().iter().any(|range| range.is_divisible())
    }

    /// Fetches ranges until none is left, or one has failed.
    fn work(&self, connection: &mut Connection) {
        loop {
            if !self.errors.lock().is_empty() || self.no_restart.load(Ordering::Acquire) {
                return;
            }
            let next = self.open.lock().pop_front();
            let Some(range) = next.or_else(|| self.ranges.divide()) else {
                return;
            };
            let mut fetch = Fetch {
                shared: self,
                range: &range,
                report: FileReport::default(),
                was_cut: false,
            };
            let done = connection.carry_out(&mut fetch);
            if fetch.was_cut {
                // What the server still sends, and says about it, is nobody's.
                connection.drop_session();
            }
            self.reports.lock().push(fetch.report);
            match done {
                Err(error) if is_about_restart(&error) => {
                    self.no_restart.store(true, Ordering::Release);
                }
                Err(error) => self.errors.lock().push(error),
                Ok(()) => {}
            }
        }
    }
}

impl Task for Fetch<'_> {
    fn attempt(&mut self, session: &mut Session) -> Result<(), ClientError> {
        let shared = self.shared;
        let remote = &shared.retrieval.remote;
        session.can_read(remote)?;
        if Original::ask_before_download(session, remote)? != shared.original {
            return Err(ClientError::Differs(format!(
                "{} was changed while it was fetched",
                one_line(remote)
            )));
        }
        let range = self.range;
        let Reach { at: first, end } = range.reach();
        if first == end {
            // Only the server's reply to the attempt before was lost.
            return Ok(());
        }
        let mut writer = Writer {
            shared,
            range,
            is_over: false,
        };
        let part = Part {
            direction: Direction::Receive,
            number: part_number(shared.number, range.number),
            remote,
            first,
            told_from: first - range.first,
            total: Some(end - first),
            path: &shared.ranges.partial.path,
            checksum: None,
            behind: Behind::Nothing,
        };
        let moved = session.move_part(&part, &mut self.report, |mover| {
            mover.receive_into(&mut writer, part.total)
        });
        if writer.is_over {
            self.was_cut = true;
            // Beyond the end of the file there is nothing: it was sent from another byte than the one asked for.
            if range.left() == 0 && range.reach().end == shared.ranges.size {
                shared.no_restart.store(true, Ordering::Release);
            }
            return Ok(());
        }
        moved?;
        match range.left() {
            0 => Ok(()),
            left => {
                Err(session.data_error(format!("it ended {left} bytes before the end of a range")))
            }
        }
    }

    fn report(&mut self) -> Option<&mut FileReport> {
        Some(&mut self.report)
    }
}

impl Session {
    /// Whether downloads can start in the middle of a file (REST).
    fn restarts(&mut self) -> Result<bool, ClientError> {
        if self.features.has("REST") {
            return Ok(true);
        }
        match self.restart_at(1) {
            Err(error) if is_about_restart(&error) => Ok(false),
            restarted => {
                restarted?;
                self.control
                    .ask("REST", b"0")
                    .map(|reply| reply.is_intermediate())
            }
        }
    }
}

impl Range {
    fn new(number: usize, first: u64, at: u64, end: u64) -> Self {
        Self {
            number,
            first,
            reach: Mutex::new(Reach { at, end }),
        }
    }

    fn reach(&self) -> Reach {
        *self.reach.lock()
    }

    fn left(&self) -> u64 {
        let Reach { at, end } = self.reach();
        end - at
    }

    fn is_divisible(&self) -> bool {
        self.left() >= LEAST_DIVIDED
    }
}

impl Ranges {
    /// Continues what an earlier download has left of the same file, or begins `count` ranges.
    fn open(
        partial: Partial,
        size: u64,
        note: String,
        count: usize,
        resume: bool,
    ) -> Result<Self, ClientError> {
        let mut ranges = Self {
            partial,
            size,
            note,
            ranges: Mutex::default(),
            recorded: Mutex::new(Instant::now()),
            checksum: Mutex::new(None),
        };
        match ranges.read().filter(|_| resume) {
            Some(present) => ranges.hold(present),
            None => ranges.begin_anew(count)?,
        }
        Ok(ranges)
    }

    /// Ranges of equal length, of which nothing has come.
    fn begin_anew(&mut self, count: usize) -> Result<(), ClientError> {
        let share = self.size.div_ceil(count as u64);
        let begins = (0..count as u64).map(|index| (index * share).min(self.size));
        let ranges = begins
            .map(|first| (first, (first + share).min(self.size)))
            .filter(|(first, end)| first < end)
            .enumerate()
            .map(|(number, (first, end))| Range::new(number, first, first, end));
        self.hold(ranges.collect());
        let emptied = self.partial.file.set_len(0);
        let written = emptied.and_then(|()| self.write());
        written.map_err(|error| self.partial.failed(error))
    }

    fn hold(&mut self, ranges: Vec<Range>) {
        *self.ranges.get_mut() = ranges.into_iter().map(Arc::new).collect();
    }

    fn all(&self) -> Vec<Arc<Range>> {
        self.ranges.lock().clone()
    }

    /// Makes a range of half of what is left of the one that has most left; `None` if that is not worth it.
    fn divide(&self) -> Option<Arc<Range>> {
        let mut ranges = self.ranges.lock();
        let all = ranges.iter().enumerate();
        let (index, slowest) = all.max_by_key(|(_, range)| range.left())?;
        if ranges.len() >= MOST {
            return None;
        }
        let (middle, end) = {
            let mut reach = slowest.reach.lock();
            let left = reach.end - reach.at;
            if left < LEAST_DIVIDED {
                return None;
            }
            let middle = reach.at + left / 2;
            (middle, std::mem::replace(&mut reach.end, middle))
        };
        let half = Arc::new(Range::new(ranges.len(), middle, middle, end));
        ranges.insert(index + 1, Arc::clone(&half));
        Some(half)
    }

    /// Bytes that have come.
    fn present(&self) -> u64 {
        let all = self.all();
        let come = all.iter().map(|range| range.reach().at - range.first);
        come.sum()
    }

    /// Bytes that have come from the beginning without a gap.
    fn whole(&self) -> u64 {
        let all = self.all();
        let mut reaches = all.iter().map(|range| range.reach());
        let gap = reaches.find(|reach| reach.at < reach.end);
        gap.map_or(self.size, |reach| reach.at)
    }

    /// Begins the checksum of what comes.
    fn watch(&self, method: Option<Method>) -> Result<(), ClientError> {
        let begin = |method: Method| {
            RunningChecksum::begin(&self.partial.file, method.algorithm(), self.whole())
        };
        let begun = method.map(begin).transpose();
        *self.checksum.lock() = begun.map_err(|error| self.partial.failed(error))?;
        Ok(())
    }

    /// Renews the record and tells the checksum how far the file is. Only a record that cannot be written for long is a
    /// loss: the next download begins earlier.
    fn record(&self) {
        let _ = self.write();
        if let Some(checksum) = &*self.checksum.lock() {
            checksum.reaches(self.whole());
        }
    }

    /// The record as it stands behind the bytes. Its length depends on the number of ranges only.
    fn text(&self) -> String {
        let mut text = format!("{HEAD}\n{}\n", self.note);
        // None is divided meanwhile.
        for range in &*self.ranges.lock() {
            let Reach { at, end } = range.reach();
            text.push_str(&format!("{:020} {at:020} {end:020}\n", range.first));
        }
        let sum = crc32fast::hash(text.as_bytes());
        text.push_str(&format!("{sum:08x}\n"));
        text
    }

    fn write(&self) -> io::Result<()> {
        self.partial
            .file
            .write_all_at(self.text().as_bytes(), self.size)
    }

    /// The ranges of the record; `None` if it is not of this file.
    fn read(&self) -> Option<Vec<Range>> {
        let length = self.partial.len().ok()?.checked_sub(self.size)?;
        if length > 16 << 10 {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        self.partial
            .file
            .read_exact_at(&mut bytes, self.size)
            .ok()?;
        parse(std::str::from_utf8(&bytes).ok()?, &self.note, self.size)
    }

    /// Compares the whole with the server's; the inner error says how they differ.
    fn verify(
        &self,
        remote: &[u8],
        connection: &mut Connection,
        method: Option<Method>,
        report: &mut FileReport,
    ) -> Result<Result<(), String>, ClientError> {
        let running = self.checksum.lock().take();
        let (Some(method), Some(running)) = (method, running) else {
            report.checksum = connection.with(|session| Ok(session.without_method()))?;
            return Ok(Ok(()));
        };
        let here = running
            .finish(self.size)
            .map_err(|error| self.partial.failed(error))?;
        let compared =
            connection.with(|session| session.compare(method, remote, self.size, here.clone()))?;
        Ok(compared.map(|verification| report.checksum = verification))
    }

    /// Gives the file its name.
    fn complete(
        self,
        original: Original,
        settled: &super::clash::Settled,
    ) -> Result<(), ClientError> {
        let file = &self.partial.file;
        // The record stays until the bytes are on the disk.
        let cut = file.sync_data().and_then(|()| file.set_len(self.size));
        cut.map_err(|error| self.partial.failed(error))?;
        self.partial.complete(original.modified, settled)
    }
}

/// The ranges in a record of this file.
fn parse(text: &str, note: &str, size: u64) -> Option<Vec<Range>> {
    let body = text.strip_suffix('\n')?;
    let (body, sum) = body.rsplit_once('\n')?;
    let body = format!("{body}\n");
    if u32::from_str_radix(sum, 16).ok()? != crc32fast::hash(body.as_bytes()) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != HEAD || lines.next()? != note {
        return None;
    }
    let mut ranges = Vec::new();
    let mut next = 0;
    for line in lines {
        let numbers: Vec<u64> = line
            .split(' ')
            .map_while(|word| word.parse().ok())
            .collect();
        let [first, at, end] = numbers[..] else {
            return None;
        };
        if first != next || at < first || end < at || ranges.len() >= MOST {
            return None;
        }
        next = end;
        ranges.push(Range::new(ranges.len(), first, at, end));
    }
    (next == size && !ranges.is_empty()).then_some(ranges)
}

/// Writes at the place of a range and takes no more than that.
struct Writer<'a> {
    shared: &'a Shared<'a>,
    range: &'a Range,
    /// The server has sent more, or nothing of it is wanted any longer.
    is_over: bool,
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Held for the write: the range is not divided below the bytes that come.
        let mut reach = self.range.reach.lock();
        let left = reach.end - reach.at;
        let is_useless = self.shared.no_restart.load(Ordering::Acquire);
        if (left == 0 || is_useless) && !bytes.is_empty() {
            self.is_over = true;
            return Err(io::Error::other("the range is complete"));
        }
        let most = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let ranges = self.shared.ranges;
        let count = ranges.partial.file.write_at(&bytes[..most], reach.at)?;
        reach.at += count as u64;
        drop(reach);
        if let Some(mut recorded) = ranges.recorded.try_lock()
            && recorded.elapsed() >= RECORD_INTERVAL
        {
            ranges.record();
            *recorded = Instant::now();
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(size: u64, count: usize) -> Ranges {
        let folder = tempfile::tempdir().unwrap();
        let partial = Partial::open_as(&folder.path().join("x"), ranges_name).unwrap();
        Ranges::open(partial, size, "note".into(), count, true).unwrap()
    }

    fn ends<R: std::borrow::Borrow<Range>>(ranges: &[R]) -> Vec<(u64, u64, u64)> {
        let each = ranges.iter().map(std::borrow::Borrow::borrow);
        each.map(|one| (one.first, one.reach().at, one.reach().end))
            .collect()
    }

    #[test]
    fn ranges_cover_the_file() {
        assert_eq!(
            ends(&record(10, 3).all()),
            [(0, 0, 4), (4, 4, 8), (8, 8, 10)]
        );
        assert_eq!(record(3, 3).all().len(), 3);
    }

    #[test]
    fn a_record_says_how_far_each_range_is() {
        let ranges = record(10, 3);
        ranges.all()[0].reach.lock().at = 4;
        ranges.all()[1].reach.lock().at = 6;
        assert_eq!((ranges.present(), ranges.whole()), (6, 6));
        ranges.record();
        let read = ranges.read().unwrap();
        assert_eq!(ends(&read), [(0, 4, 4), (4, 6, 8), (8, 8, 10)]);
    }

    #[test]
    fn the_range_with_most_left_is_divided_as_long_as_it_is_worth_it() {
        const MIB: u64 = 1 << 20;
        let ranges = record(32 * MIB, 2);
        ranges.all()[0].reach.lock().at = 16 * MIB;
        ranges.all()[1].reach.lock().at = 20 * MIB;
        let half = ranges.divide().unwrap();
        assert_eq!((half.number, half.first), (2, 26 * MIB));
        let expected = [(0, 16, 16), (16, 20, 26), (26, 26, 32)];
        let expected = expected.map(|(first, at, end)| (first * MIB, at * MIB, end * MIB));
        assert_eq!(ends(&ranges.all()), expected);
        ranges.record();
        assert_eq!(ends(&ranges.read().unwrap()), expected);
        let mut halves = std::iter::repeat_with(|| ranges.divide());
        // 6 and 6 MiB; 3, 3, 3 and 3 MiB.
        assert_eq!(halves.position(|half| half.is_none()), Some(2));
        assert_eq!(ranges.all().len(), 5);
    }

    #[test]
    fn a_record_of_another_file_or_with_another_byte_is_none() {
        let ranges = record(10, 2);
        let text = ranges.text();
        assert!(parse(&text, "note", 10).is_some());
        assert!(parse(&text, "other", 10).is_none());
        assert!(parse(&text, "note", 11).is_none());
        assert!(parse(&text.replacen('5', "4", 1), "note", 10).is_none());
        assert!(parse(&text[..text.len() - 1], "note", 10).is_none());
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    use super::*;

    const RECORDS: [&[u8]; 1] = [b"fairwind ranges 1\nnote\n00000000000000000000 \
        00000000000000000003 00000000000000000005\n00000000000000000005 00000000000000000005 \
        00000000000000000010\n5b0d7d10\n"];

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn whatever_a_record_says_its_ranges_cover_the_file(text in damaged(&RECORDS), size: u64) {
            let text = String::from_utf8_lossy(&text);
            if let Some(ranges) = parse(&text, "note", size) {
                let mut next = 0;
                for range in &ranges {
                    prop_assert_eq!(range.first, next);
                    let reach = range.reach();
                    prop_assert!(range.first <= reach.at && reach.at <= reach.end);
                    next = reach.end;
                }
                prop_assert_eq!(next, size);
            }
        }
    }
}
