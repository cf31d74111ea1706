//! Commands that move data through a data connection.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::{
    Direction, Meter, SocketPlan, Transfer, TransferError, Watchers, limit_silence,
};
use jiff::Zoned;
use socket2::SockRef;

use super::channel::{self, Channel, Setup};
use super::config::SyncPolicy;
use super::files::Root;
use super::listing::{Form, Subject};
use super::names::free_to_take;
use super::own_thread;
use super::partial::UploadError;
use super::rates::RateGate;
use super::session::{AfterQuit, Failure, Interruption, Session, TransferMode};
use super::third_party::DataTls;
use super::upload::{Start, Upload, force_name};
use super::uploads::Key;
use super::work::{
    self, Compression, Outcome, Passage, Work, file_failure, not_opened, upload_failure,
};
use super::xferlog::Entry;
use crate::blocks::Blocks;
use crate::protocol::command::{ByteRange, Representation};
use crate::protocol::{Reply, VirtualPath};

/// An upload that has begun.
struct Begun {
    upload: Upload,
    path: VirtualPath,
    /// Line of the first reply.
    opening: Vec<u8>,
}

/// Stops a transfer that nothing waits for any more.
struct StopWhenDropped(Arc<Meter>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Longest time that an upload waits to see whether its client is still there.
const LONGEST_GRACE: Duration = Duration::from_millis(200);

impl Session {
    pub(super) async fn list(&mut self, argument: Vec<u8>, form: Form) -> Result<Reply, Failure> {
        let path = self.state.cwd.join(&argument);
        let (wanted, from) = (path.clone(), self.state.cwd.clone());
        let (subject, is_directory) = self
            .on_files(move |root| {
                let subject = match form {
                    // RFC 3659 has no patterns.
                    Form::Facts { .. } => Subject::Path(wanted),
                    Form::Long { hidden } | Form::Names { hidden } => {
                        Subject::find(root, &from, &argument, hidden)?
                    }
                };
                let Subject::Path(path) = &subject else {
                    return Ok((subject, false));
                };
                let is_directory = root.facts(path)?.is_directory();
                if is_directory {
                    root.directory(path)?;
                }
                Ok((subject, is_directory))
            })
            .await?;
        // RFC 3659 section 7.2.1: 501 if it exists but is not a directory, 550 if it does not exist.
        if !is_directory && matches!(form, Form::Facts { .. }) {
            return Ok(Reply::new(501, "Not a directory"));
        }
        let root = Arc::clone(&self.user()?.root);
        let opening = [b"Listing ", path.as_bytes()].concat();
        let work = Work::List {
            root,
            subject,
            form,
        };
        let setup = self.take_setup()?;
        self.transfer(setup, work, opening, path, Arc::default())
            .await
    }

    /// The data connection agreed on for a file, or the reply if there is none.
    fn take_setup_for_file(&mut self) -> Result<Setup, Reply> {
        if self.lacks_peer() {
            let text = "The other server is not known: SITE PEER first";
            return Err(Reply::new(503, text));
        }
        self.take_setup()
    }

    /// The reply to a transfer at a position under TYPE A or MODE B. There positions count what is sent (RFC 3659, section 5)
    /// or are those of markers, not bytes of the file; TYPE and MODE may have come behind REST or RANG.
    fn takes_positions(&self, is_partial: bool) -> Result<(), Reply> {
        let refused = |text| Err(Reply::new(501, text));
        match (self.state.representation, self.state.mode) {
            _ if !is_partial => Ok(()),
            (Representation::Ascii, _) => refused("REST and RANG are for TYPE I (binary) only"),
            (_, TransferMode::Block) => refused("REST and RANG are not for MODE B"),
            _ => Ok(()),
        }
    }

    pub(super) async fn retrieve(&mut self, argument: Vec<u8>) -> Result<Reply, Failure> {
        let path = self.state.cwd.join(&argument);
        let (restart, range) = (
            std::mem::take(&mut self.state.restart),
            self.state.range.take(),
        );
        self.takes_positions(restart > 0 || range.is_some())?;
        let wanted = path.clone();
        let (file, facts) = self.on_files(move |root| root.read(&wanted)).await?;
        let range = range.unwrap_or(ByteRange {
            first: restart,
            end: facts.size(),
        });
        if range.first > facts.size() {
            return Ok(Reply::new(
                554,
                format!("The file has only {} bytes", facts.size()),
            ));
        }
        let work = Work::Send {
            file,
            first: range.first,
            end: range.end.min(facts.size()),
            representation: self.state.representation,
        };
        let size = format!(" ({} bytes)", work.total().unwrap_or(facts.size()));
        let opening = [b"Sending ", path.as_bytes(), size.as_bytes()].concat();
        let setup = self.take_setup_for_file()?;
        self.transfer(setup, work, opening, path, Arc::default())
            .await
    }

    /// STOR and APPE: from the position given by REST, else from `start`. REST before APPE, as some
    /// clients send it, gives the position where the end should be.
    pub(super) async fn store(
        &mut self,
        argument: Vec<u8>,
        start: Start,
    ) -> Result<Reply, Failure> {
        let answer = self.store_from(argument, start).await;
        self.after_upload(answer)
    }

    /// STOU
    pub(super) async fn store_unique(&mut self) -> Result<Reply, Failure> {
        let answer = self.store_anywhere().await;
        self.after_upload(answer)
    }

    /// Closes a data connection in block mode with an upload that failed or was refused: blocks of it that the client has
    /// sent ahead would pass for those of the next one.
    fn after_upload(&mut self, answer: Result<Reply, Failure>) -> Result<Reply, Failure> {
        let (Ok(reply) | Err(Failure::Refused(reply))) = &answer else {
            return answer;
        };
        if self.state.mode == TransferMode::Block && reply.code >= 400 {
            let closed = || Setup::Failed(io::Error::other("it ended with the upload that failed"));
            self.state.setup = self.state.setup.take().map(|_| closed());
        }
        answer
    }

    async fn store_from(&mut self, argument: Vec<u8>, start: Start) -> Result<Reply, Failure> {
        let restart = std::mem::take(&mut self.state.restart);
        self.takes_positions(restart > 0)?;
        let start = match restart {
            0 => start,
            first => Start::At(first),
        };
        let path = self.state.cwd.join(&argument);
        let wanted = path.clone();
        self.receive(path, move |root, owner| {
            Ok(Begun {
                upload: Upload::begin(root, &wanted, start, owner)?,
                path: wanted.clone(),
                opening: [b"Receiving ", wanted.as_bytes()].concat(),
            })
        })
        .await
    }

    async fn store_anywhere(&mut self) -> Result<Reply, Failure> {
        self.state.restart = 0;
        let directory = self.state.cwd.clone();
        let stem = format!("upload-{}", jiff::Timestamp::now().as_second());
        self.receive(directory.clone(), move |root, owner| {
            let upload = Upload::begin_unique(root, &directory, &stem, owner)?;
            let name = &upload.name;
            Ok(Begun {
                path: directory.join(name.as_encoded_bytes()),
                // The client does not know the name yet; RFC 1123 section 4.1.2.9 gives the form.
                opening: [b"FILE: ", name.as_encoded_bytes()].concat(),
                upload,
            })
        })
        .await
    }

    /// Begins an upload; if a lost session of the same user still has the file, that upload is ended
    /// first.
    async fn begin_upload<F>(
        &mut self,
        begin: F,
        key: &Key,
    ) -> io::Result<Result<Begun, UploadError>>
    where
        F: Fn() -> Result<Begun, UploadError> + Clone + Send + 'static,
    {
        let again = begin.clone();
        let begun = tokio::task::spawn_blocking(begin).await;
        let begun = begun.map_err(io::Error::other)?;
        match begun {
            Err(UploadError::Busy) if self.shared.ledger.uploads.take_over(key).await => {
                let client = self.control.facts.peer.ip();
                let user = self.user().map_or("nobody", |user| &user.name);
                tracing::info!("{client}: {user} goes on with {}", key.path);
                let begun = tokio::task::spawn_blocking(again).await;
                begun.map_err(io::Error::other)
            }
            begun => Ok(begun),
        }
    }

    async fn receive<F>(&mut self, path: VirtualPath, begin: F) -> Result<Reply, Failure>
    where
        F: Fn(&Root, &str) -> Result<Begun, UploadError> + Clone + Send + 'static,
    {
        let announced = self.state.announced.take();
        let user = self.writer()?.clone();
        free_to_take(&path)?;
        let setup = self.take_setup_for_file()?;
        let key = Key {
            owner: user.owner.clone(),
            root: user.root.identity(),
            path: path.clone(),
        };
        let begin = move || user.act(|| begin(&user.root, &user.owner))?;
        let begun = match self.begin_upload(begin, &key).await? {
            Ok(begun) => begun,
            Err(error) => {
                // Keep the setup: the client may name another file.
                self.state.setup = Some(setup);
                return Ok(upload_failure(&error));
            }
        };
        let Begun {
            mut upload,
            path,
            opening,
        } = begun;
        upload.umask = self.state.umask;
        let announced = announced.map(|all| all.saturating_sub(upload.first));
        // Bytes of the file, not of the compressed stream or of text with CR LF.
        let is_as_sent =
            self.state.mode.level().is_none() && self.state.representation == Representation::Image;
        let announced = announced.filter(|_| is_as_sent);
        let work = Work::Receive {
            upload,
            announced,
            representation: self.state.representation,
        };
        let meter = Arc::new(Meter::default());
        // Dropped once the file is free again.
        let key = Key {
            path: path.clone(),
            ..key
        };
        let _entry = self.shared.ledger.uploads.enter(key, &meter);
        self.transfer(setup, work, opening, path, meter).await
    }

    /// The data connection agreed on, or the reply if there is none.
    fn take_setup(&mut self) -> Result<Setup, Reply> {
        if self.data_lacks_protection() {
            return Err(Reply::new(
                521,
                "Data connections must be protected: PROT P first",
            ));
        }
        match self.state.setup.take() {
            None => Err(Reply::new(425, "Use PORT or PASV first")),
            Some(Setup::Failed(error)) => Err(not_opened(&error)),
            Some(Setup::Shared(mut channel, until)) => match channel.check() {
                Ok(()) => Ok(Setup::Shared(channel, until)),
                Err(error) => Err(not_opened(&error)),
            },
            Some(setup) => Ok(setup),
        }
    }

    /// Opens the data connection, does the work and returns the last reply.
    async fn transfer(
        &mut self,
        setup: Setup,
        work: Work,
        opening: Vec<u8>,
        path: VirtualPath,
        meter: Arc<Meter>,
    ) -> Result<Reply, Failure> {
        let opened = match setup {
            Setup::Shared(..) => Reply::new(125, opening),
            _ => Reply::new(150, opening),
        };
        self.control.send(&opened).await?;
        let (started, direction) = (Instant::now(), work.direction());
        let (is_file, announced) = (work.is_file(), work.total());
        let _guard = StopWhenDropped(Arc::clone(&meter));
        if is_file {
            self.entry.moves(path.text(), direction, &meter);
        }
        let tls = self.data_tls(is_file)?;
        let (channel, interruption) = self.open_channel(setup, tls.clone(), &meter).await?;
        let mut unopened = None;
        let (outcome, interruption) = match (channel, interruption) {
            // Nothing stops the transfer of a client that has quit behind it.
            (Ok(channel), _) if !meter.is_stopped() => {
                self.run_work(work, channel, tls.as_ref(), &meter).await?
            }
            (Ok(_), interruption) => (work.ends_with(TransferError::Stopped), interruption),
            (Err(error), interruption) => {
                unopened = Some(not_opened(&error));
                let outcome = work.ends_with(TransferError::Connection(error));
                (outcome, interruption)
            }
        };
        self.entry.rests();
        let (reply, complete) = self
            .finish_transfer(outcome, interruption, announced, direction)
            .await?;
        if !complete {
            self.close_shared();
        }
        if let Some(unopened) = unopened {
            return Ok(match interruption {
                Interruption::Aborted => reply,
                _ => unopened,
            });
        }
        if is_file {
            self.moved = Some(meter.moved());
            self.shared.ledger.counters.transfer(direction, complete);
            self.log(path, &meter, started.elapsed(), direction, complete);
        }
        Ok(reply)
    }

    async fn open_channel(
        &mut self,
        setup: Setup,
        tls: Option<DataTls>,
        meter: &Arc<Meter>,
    ) -> io::Result<(io::Result<Channel>, Interruption)> {
        let facts = self.control.facts;
        let plan = match &setup {
            Setup::Active(_) => self.plan(),
            // Settled when the socket began to listen.
            Setup::Passive(_) | Setup::Open(..) | Setup::Shared(..) | Setup::Failed(_) => {
                SocketPlan::default()
            }
        };
        let (shared, wanted) = (Arc::clone(&self.shared), Arc::clone(meter));
        let opening = async move {
            let opening = async {
                let (config, local, client) = (&shared.config, facts.local.ip(), facts.peer.ip());
                let channel = channel::open(setup, config, local, client, plan).await?;
                channel.protected(tls.as_ref()).await
            };
            tokio::select! {
                biased;
                channel = opening => channel,
                () = wanted.stopped() => Err(io::ErrorKind::Interrupted.into()),
            }
        };
        self.run_interruptible(opening, meter, AfterQuit::GoesOn)
            .await
    }

    async fn run_work(
        &mut self,
        work: Work,
        channel: Channel,
        tls: Option<&DataTls>,
        meter: &Arc<Meter>,
    ) -> io::Result<(Outcome, Interruption)> {
        let protector = tls.map(DataTls::protector);
        let awaits_end = tls.is_some_and(DataTls::awaits_end);
        let (stream, limits) = (channel.stream, &self.shared.config.limits);
        let silence = limits.silence(Some(work.direction()));
        if let Err(error) = limit_silence(SockRef::from(&stream), silence) {
            let error = TransferError::Connection(error);
            return Ok((work.ends_with(error), Interruption::None));
        }
        let transfer = Transfer {
            direction: work.direction(),
            local: channel.local,
            peer: channel.peer,
            listener: channel.listener,
            total: work.total(),
            protector,
        };
        let mut watchers = Watchers::default();
        let in_blocks = self.state.mode == TransferMode::Block;
        if work.is_file() && !in_blocks {
            let extensions = self.extensions.iter_mut();
            let parts = extensions.filter_map(|extension| extension.watch(&transfer));
            watchers.0.extend(parts);
        }
        drop(transfer);
        let (mut protection, mut blocks) = (channel.protection, channel.blocks);
        if in_blocks && blocks.is_none() {
            blocks = Some(Box::new(Blocks::over(protection.take())));
            // The last bytes of a file do not wait for those of the next one.
            if let Err(error) = stream.set_nodelay(true) {
                let error = TransferError::Connection(error);
                return Ok((work.ends_with(error), Interruption::None));
            }
        }
        let stream = Arc::new(stream);
        meter.ends_waits_on(&stream, work.direction());
        let (seen, bounds) = (Arc::clone(meter), self.shared.config.limits.transfer());
        let (gate, moving) = (self.gate(), Arc::clone(&stream));
        let compression = Compression {
            level: self.state.mode.level(),
            ratio: self.shared.config.limits.deflate_ratio,
        };
        let user = self.state.user.clone();
        let running = own_thread::run(move || {
            let run = || {
                let passage = Passage {
                    protection,
                    bounds,
                    gate: &*gate,
                    compression,
                    blocks,
                    awaits_end,
                };
                work.run(&moving, passage, &seen, &mut watchers)
            };
            match &user {
                Some(user) => user.act(run),
                None => Ok(run()),
            }
        });
        let (outcome, interruption) = self
            .run_interruptible(running, meter, AfterQuit::GoesOn)
            .await?;
        let mut outcome = match outcome {
            Ok(outcome) => outcome?,
            // An upload has been abandoned with its work.
            Err(error) => Err(TransferError::Connection(error)).into(),
        };
        // Another server is known by its handshake, which is each file's own.
        let with_client = !matches!(tls, Some(DataTls::Server(_)));
        if let Some(mut blocks) = outcome.blocks.take()
            && !meter.is_stopped()
            && with_client
            && let Some(stream) = Arc::into_inner(stream)
        {
            blocks.rests();
            let channel = Channel {
                local: channel.local,
                peer: channel.peer,
                stream,
                listener: None,
                protection: None,
                blocks: Some(blocks),
            };
            let until = Instant::now() + self.shared.config.limits.connect();
            self.state.setup = Some(Setup::Shared(channel, until.into()));
        }
        Ok((outcome, interruption))
    }

    /// What limits the rate of a transfer. The session keeps it: otherwise each of many small files would begin anew.
    fn gate(&mut self) -> Arc<RateGate> {
        let user = self.state.user.as_ref().filter(|user| !user.anonymous);
        let peer = self.control.facts.peer.ip();
        let rates = &self.shared.ledger.rates;
        let make = || Arc::new(rates.gate(user.map(|user| user.name.as_str()), peer));
        Arc::clone(self.state.gate.get_or_insert_with(make))
    }

    /// Completes or abandons an upload, and returns the last reply; true if all bytes were moved.
    async fn finish_transfer(
        &mut self,
        outcome: Outcome,
        interruption: Interruption,
        announced: Option<u64>,
        direction: Direction,
    ) -> io::Result<(Reply, bool)> {
        let (mut result, left_out) = (outcome.result, outcome.left_out);
        if interruption == Interruption::Aborted {
            result = Err(TransferError::Stopped);
        }
        let arrived = announced.zip(result.as_ref().ok().copied());
        // The stream ends when a file is complete, but also when a client is killed: unless all that was
        // announced has arrived, check whether the client is still there.
        if direction == Direction::Receive && result.is_ok() {
            let grace = self
                .control
                .shortest_round_trip()
                .clamp(Duration::from_millis(1), LONGEST_GRACE);
            let orderly = match interruption {
                Interruption::Gone => self.has_quit(),
                // The last block has come.
                _ if self.state.mode == TransferMode::Block => true,
                _ if arrived.is_some_and(|(all, moved)| moved >= all) => true,
                _ => self.is_present_after(grace).await,
            };
            if !orderly {
                result = Err(TransferError::Stopped);
            }
        }
        let short = arrived.filter(|(all, moved)| direction == Direction::Receive && moved < all);
        let mut stays = false;
        if let Some(upload) = outcome.upload {
            let keep = result.is_ok() && short.is_none();
            let full = matches!(&result, Err(TransferError::File(error)) if work::is_full(error));
            let sync = self.shared.config.sync;
            let user = self.state.user.clone();
            let end = move || {
                if keep {
                    return complete(upload, sync).map(|()| true);
                }
                Ok(match full {
                    true => upload.abandon_on_full_disk(),
                    false => upload.abandon(),
                })
            };
            let ended = tokio::task::spawn_blocking(move || match &user {
                Some(user) => user.act(end)?,
                None => end(),
            });
            match ended.await.map_err(io::Error::other)? {
                Ok(is_there) => stays = is_there,
                Err(error) => return Ok((file_failure(&error), false)),
            }
        }
        Ok(match (result, short) {
            (Ok(moved), Some((all, _))) => {
                let rest = match stays {
                    true => "they wait to be resumed",
                    false => "nothing is kept",
                };
                let text = format!("{moved} of the {all} bytes announced have come; {rest}");
                (Reply::new(426, text), false)
            }
            (Ok(moved), None) => {
                let mut text = format!("Transfer complete: {moved} bytes");
                if left_out > 0 {
                    text.push_str(&format!("; {left_out} names with a line end were left out"));
                }
                let code = match self.state.setup {
                    Some(Setup::Shared(..)) => 250,
                    _ => 226,
                };
                (Reply::new(code, text), true)
            }
            (Err(error), _) if interruption == Interruption::Aborted => {
                self.control.send(&work::failure(&error)).await?;
                (Reply::new(226, "Aborted"), false)
            }
            (Err(error), _) => (work::failure(&error), false),
        })
    }

    fn log(
        &self,
        path: VirtualPath,
        meter: &Meter,
        duration: Duration,
        direction: Direction,
        complete: bool,
    ) {
        let Some(user) = &self.state.user else { return };
        let host = self.control.facts.peer.ip();
        let way = if direction == Direction::Send {
            "sent"
        } else {
            "received"
        };
        tracing::info!(
            "{host}: {} {way} {path}: {} bytes in {:.3} s{}",
            user.name,
            meter.moved(),
            duration.as_secs_f64(),
            if complete { "" } else { ", incomplete" },
        );
        let Some(xferlog) = &self.shared.xferlog else {
            return;
        };
        xferlog.add(&Entry {
            time: Zoned::now(),
            duration,
            host,
            bytes: meter.moved(),
            path: path.text(),
            representation: self.state.representation,
            direction,
            anonymous: user.anonymous,
            user: user.name.clone(),
            complete,
        });
    }
}

/// Gives a complete upload its name; if the policy says so, forced to disk before the client is told.
fn complete(upload: Upload, sync: SyncPolicy) -> io::Result<()> {
    match sync {
        SyncPolicy::Never => upload.complete().map(drop),
        SyncPolicy::Uploads => {
            if let Err(error) = upload.force_bytes() {
                // Which bytes are lost is unknown: there is nothing to resume.
                upload.discard();
                return Err(error);
            }
            force_name(&upload.complete()?)
        }
    }
}
