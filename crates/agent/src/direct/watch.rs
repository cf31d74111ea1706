//! The thread that looks at connections: what they do, and which window those that are held down are to offer.
//!
//! What a closed connection did comes from the kernel. A look needs its socket, and so the descriptor of a process; where
//! that has another socket by now, the processes of the command are searched for it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairwind_advice_client::ClientError;
use fairwind_kernel::sock_diag::Diag;
use fairwind_kernel::{Process, TcpInfo, descendants, monotonic_ns, open_sockets};
use fairwind_transfer::advised::{Event, Lent, Setting};
use fairwind_transfer::background::{Law, Neighbours, Seen, mark, unmark};

use super::advice::{Advice, Known};
use super::connections::{Connections, Holder, One, Opening};
use super::plan::Plan;
use super::socket::{Given, Taken};
use crate::summary::Summary;

/// From the call that connects to the first look: the port is known by then.
const SETTLES: Duration = Duration::from_millis(1);
/// Between looks at a connection; and at one that has received nothing for a while.
const INTERVAL: Duration = Duration::from_millis(10);
const QUIET: Duration = Duration::from_secs(1);
const QUIET_INTERVAL: Duration = Duration::from_millis(160);
/// Between looks at one that follows advice and is not held down.
const ADVISED_INTERVAL: Duration = Duration::from_millis(100);
/// Between searches for accepted connections, and for descriptors.
const SEARCH: Duration = Duration::from_millis(50);
/// Between searches for accepted connections of which nothing but their time is wanted before they close.
const TIME_SEARCH: Duration = Duration::from_secs(1);
/// More than a receiver can offer, bytes.
const MOST: u32 = 1 << 30;
/// At the end: how often what has been closed is asked for, and after how long.
const LAST_ASKS: u32 = 10;
const LAST: Duration = Duration::from_millis(5);
/// `SYN_SENT` and `CLOSE` of include/net/tcp_states.h.
const NOT_THERE: [u8; 2] = [2, 7];

/// What the threads share.
pub(super) struct Shared {
    plan: Plan,
    began: Instant,
    connections: Mutex<Connections>,
    /// None if the kernel tells nothing of connections.
    diag: Mutex<Option<Diag>>,
    /// What else the host receives.
    neighbours: Mutex<Neighbours>,
    /// If connections follow any.
    advice: Option<Advice>,
    is_due: Condvar,
    /// Nobody is held down any more. Changes under the lock of the connections.
    is_released: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Shared")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(plan: Plan) -> Result<Shared, ClientError> {
        Ok(Shared {
            advice: plan.advisor.as_ref().map(Advice::of).transpose()?,
            plan,
            began: Instant::now(),
            connections: Mutex::default(),
            diag: Mutex::new(Diag::open().ok()),
            neighbours: Mutex::default(),
            is_due: Condvar::new(),
            is_released: AtomicBool::new(false),
        })
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn diag(&self) -> MutexGuard<'_, Option<Diag>> {
        self.diag.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn neighbours(&self) -> MutexGuard<'_, Neighbours> {
        self.neighbours
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket is about to connect.
    pub(super) fn opens(
        &self,
        cookie: u64,
        inode: u64,
        (process, descriptor): (Process, i32),
        opening: Opening,
    ) {
        let holder = (Arc::new(process), descriptor);
        let mut connections = self.connections();
        connections.opens(cookie, inode, holder, opening);
        self.look_soon(&mut connections, cookie);
    }

    /// The program of a socket asks for a congestion control, which the kernel may refuse.
    pub(super) fn asks_for(&self, name: Option<String>, cookie: u64, socket: &Taken) {
        let mut connections = self.connections();
        // It may have been given another before.
        connections.has_chosen(cookie, &socket.control());
        connections.asks_for(name, cookie);
        if connections.get(cookie).is_some() {
            self.look_soon(&mut connections, cookie);
        }
    }

    fn look_soon(&self, connections: &mut Connections, cookie: u64) {
        connections.schedule(Instant::now() + SETTLES, cookie);
        self.is_due.notify_one();
    }

    /// What connections are advised, if they follow that.
    pub(super) fn advice(&self) -> Option<&Advice> {
        self.advice.as_ref()
    }

    /// Asks the advisor while the process lives. Connections follow an answer at once.
    pub(super) fn ask(&self) {
        let Some(advice) = &self.advice else { return };
        advice.ask(|prefix| {
            let mut connections = self.connections();
            let now = Instant::now();
            let of = connections
                .open()
                .filter(|(_, one)| prefix.contains(one.told.remote.ip()));
            let of: Vec<u64> = of.map(|(cookie, _)| cookie).collect();
            for cookie in of {
                connections.schedule(now, cookie);
            }
            self.is_due.notify_one();
        })
    }

    /// Lets a socket that is about to connect to a peer follow what is advised, if that is known; otherwise the advisor is
    /// asked. Returns what has become of its congestion control, if something has.
    pub(super) fn advise_beginning(
        &self,
        lent: &mut Option<Lent>,
        socket: &Taken,
        peer: IpAddr,
        has_chosen: bool,
    ) -> Option<Given> {
        let advice = self.advice.as_ref()?;
        if socket.is_own(peer) {
            return None;
        }
        let known = advice.on(peer, monotonic_ns())?;
        let info = socket.info().ok()?;
        self.follow(lent, socket, &info, &known, (peer, has_chosen), advice)
    }

    /// Lets a connection follow orders. Returns the same.
    fn follow(
        &self,
        lent: &mut Option<Lent>,
        socket: &Taken,
        info: &TcpInfo,
        known: &Known,
        (peer, has_chosen): (IpAddr, bool),
        advice: &Advice,
    ) -> Option<Given> {
        let lent = match lent {
            Some(lent) => lent,
            None => {
                let limit = self.plan.max_rate.map(u64::from);
                lent.insert(Lent::of(socket.as_fd(), limit).ok()?)
            }
        };
        let is_own = has_chosen && !self.plan.is_forced;
        if is_own {
            lent.leave_control(socket.as_fd());
        }
        let is_first = !lent.has_followed();
        let orders = (known.number, &*known.orders);
        let permit = (peer, advice.allows_nocc(peer));
        let events = lent.follow(socket.as_fd(), info, orders, permit);
        if events.is_empty() && !is_first {
            return None;
        }
        advice.note(&events);
        let mut refused = events.iter().filter_map(|event| match event {
            Event::Refused { what, .. } => Some(*what),
            _ => None,
        });
        let is_refused = refused.any(|what| what == Setting::CongestionControl);
        match known.orders.control() {
            None => None,
            Some(_) if is_own => Some(Given::Own),
            Some(_) if is_refused => Some(Given::Refused),
            Some(_) => Some(Given::Control),
        }
    }

    /// Waits for the next look that is due.
    fn wait(&self) {
        let connections = self.connections();
        let longest = if self.plan.looks() {
            SEARCH
        } else {
            2 * SEARCH
        };
        let due = connections.next_due();
        let due = due.map(|due| due.saturating_duration_since(Instant::now()));
        let wait = due.map_or(longest, |due| due.min(longest));
        if !wait.is_zero() {
            drop(self.is_due.wait_timeout(connections, wait));
        }
    }

    /// What the connections did. Those that have just been closed are waited for, some hundredths of a second.
    pub(super) fn finish(&self) -> Summary {
        let seconds = self.began.elapsed().as_secs_f64();
        for _ in 0..LAST_ASKS {
            let there = self.existing(0);
            self.closed();
            let is_known = |cookie| there.contains(&cookie);
            if self
                .connections()
                .open()
                .all(|(cookie, _)| is_known(cookie))
            {
                break;
            }
            thread::sleep(LAST);
        }
        let unseen = self.diag().is_none().then_some(
            "what connections did: the kernel does not tell it (sock_diag, CONFIG_INET_DIAG)",
        );
        let unfollowed = self.advice.as_ref().map(Advice::left_out);
        let unseen = unseen.map(str::to_owned).into_iter();
        let left_out = unseen.chain(unfollowed.into_iter().flatten());
        self.connections().summary(&self.plan, seconds, left_out)
    }

    /// Lets connections offer what they would: nobody holds them down any more.
    pub(super) fn release(&self) {
        // The process by which a socket was known may have ended, and left it to others.
        let is_lost = |one: &One| one.law.is_some() && one.socket().is_none();
        let lost: BTreeSet<u64> = {
            let connections = self.connections();
            let lost = connections.open().filter(|(_, one)| is_lost(one));
            lost.map(|(cookie, _)| cookie).collect()
        };
        find(self, &lost);
        let mut connections = self.connections();
        connections.rest();
        self.is_released.store(true, Ordering::Relaxed);
        for one in connections.open_mut() {
            if one.law.take().is_none() {
                continue;
            }
            if let Some(socket) = one.socket() {
                let _ = socket.offer(MOST);
                let _ = unmark(socket.as_fd());
            }
        }
    }

    /// Takes in what has been closed.
    fn closed(&self) {
        let closed = match self.diag().as_mut().map(Diag::closed) {
            Some(Ok(closed)) => closed,
            // Some may be lost, if there were many at once.
            Some(Err(_)) | None => return,
        };
        let mut ports = BTreeSet::new();
        {
            let mut connections = self.connections();
            for report in &closed {
                connections.reported(report, true);
                ports.extend(connections.gone(report.cookie));
            }
        }
        for port in ports {
            self.existing(port);
        }
        self.connections().forget_gone();
    }

    /// Takes in what there is at this port of the host, 0 for any. Returns the cookies, and lets new ones be looked at.
    fn existing(&self, port: u16) -> HashSet<u64> {
        let there = match self.diag().as_mut().map(|diag| diag.existing(port)) {
            Some(Ok(there)) => there,
            Some(Err(_)) | None => return HashSet::new(),
        };
        let mut connections = self.connections();
        for report in &there {
            if connections.reported(report, false) {
                connections.schedule(Instant::now(), report.cookie);
            }
        }
        there.iter().map(|report| report.cookie).collect()
    }
}

/// Looks at the connections while the process lives.
pub(super) fn watch(shared: &Shared) {
    let mut searched = Instant::now();
    let mut searched_ports = searched;
    let mut latest = Instant::now();
    // Whose descriptor is unknown, or has become another's.
    let mut lost = BTreeSet::new();
    loop {
        shared.wait();
        shared.closed();
        let now = Instant::now();
        lost.append(&mut look_at_due(shared, now));
        if now > searched + SEARCH {
            searched = now;
            if shared.plan.looks() || now > searched_ports + TIME_SEARCH {
                searched_ports = now;
                let ports = shared.connections().ports();
                for port in ports {
                    shared.existing(port);
                }
            }
            if !lost.is_empty() {
                find(shared, &std::mem::take(&mut lost));
            }
        }
        let mut connections = shared.connections();
        if connections.is_yielding() {
            connections.yielded += now - latest;
        }
        latest = now;
    }
}

/// Looks at the connections that are due. Returns those of which the descriptor is missing.
fn look_at_due(shared: &Shared, now: Instant) -> BTreeSet<u64> {
    let mut lost = BTreeSet::new();
    loop {
        // Who connects meanwhile waits for one look at most.
        let mut connections = shared.connections();
        let Some(cookie) = connections.take_due(now) else {
            return lost;
        };
        match look(&mut connections, cookie, shared) {
            Look::Again(interval) => connections.schedule(now + interval, cookie),
            Look::Never => connections.let_go(cookie),
            Look::Lost => {
                lost.insert(cookie);
            }
        }
    }
}

/// What follows from a look.
enum Look {
    Again(Duration),
    Never,
    Lost,
}

fn look(connections: &mut Connections, cookie: u64, shared: &Shared) -> Look {
    let Some(one) = connections.get_mut(cookie) else {
        return Look::Never;
    };
    if one.told.closed {
        return Look::Never;
    }
    let Some((process, descriptor)) = &one.holder else {
        return Look::Lost;
    };
    let Ok(socket) = Taken::from(process, *descriptor) else {
        return Look::Lost;
    };
    if !socket.cookie().is_ok_and(|seen| seen == cookie) {
        return Look::Lost;
    }
    let Ok(info) = socket.info() else {
        return Look::Never;
    };
    let control = socket.control();
    let has_chosen = connections.has_chosen(cookie, &control);
    let Some(one) = connections.get_mut(cookie) else {
        return Look::Never;
    };
    one.see(&info);
    one.told.congestion_control = control;
    if let Some((local, remote)) = socket.ends() {
        (one.told.local, one.told.remote) = (local, remote);
    }
    if !shared.plan.looks() || shared.is_released.load(Ordering::Relaxed) {
        return Look::Never;
    }
    let has_received = info.tcpi_bytes_received != one.received;
    if has_received {
        (one.received, one.latest) = (info.tcpi_bytes_received, Instant::now());
    }
    let again = Look::Again(match one.latest.elapsed() < QUIET {
        true => INTERVAL,
        false => QUIET_INTERVAL,
    });
    if NOT_THERE.contains(&info.tcpi_state) {
        return again;
    }
    if one.is_within_host() {
        return Look::Never;
    }
    let peer = one.told.remote.ip();
    if let Some(advice) = &shared.advice
        && let Some(known) = advice.on(peer, monotonic_ns())
    {
        let of = (peer, has_chosen);
        let given = shared.follow(&mut one.lent, &socket, &info, &known, of, advice);
        one.given = given.unwrap_or(one.given);
        one.told.congestion_control = socket.control();
        if let Some(lent) = &one.lent {
            let control = lent.control().to_owned();
            connections.is_given(cookie, &control);
        }
    }
    if !shared.plan.is_held {
        return Look::Again(ADVISED_INTERVAL);
    }
    let Some(one) = connections.get_mut(cookie) else {
        return Look::Never;
    };
    let has_begun = one.law.is_none();
    let law = one.law.get_or_insert_with(|| Law::new(info.tcpi_advmss));
    let before = law.window();
    let seen = Seen::of(&info, shared.began.elapsed());
    let beside = {
        let neighbours = &mut *shared.neighbours();
        // Where they cannot be listed, their queue still can be seen.
        let _ = neighbours.look(seen.at);
        neighbours.beside(cookie, seen.rtt.unwrap_or_default())
    };
    let window = law.see(&seen, &beside);
    let is_yielding = law.is_yielding();
    if has_begun {
        let _ = mark(socket.as_fd());
    }
    // The kernel's own tuning raises it as data comes.
    if has_begun || has_received || window != before {
        let _ = socket.offer(window);
    }
    connections.yields(cookie, is_yielding);
    again
}

/// Looks for the sockets among those of the command's processes. Who has none any more is closed by its program.
fn find(shared: &Shared, lost: &BTreeSet<u64>) {
    let mut wanted: HashMap<u64, u64> = HashMap::new();
    {
        let connections = shared.connections();
        for cookie in lost {
            if let Some(one) = connections.get(*cookie).filter(|one| !one.told.closed) {
                wanted.insert(one.inode, *cookie);
            }
        }
    }
    if wanted.is_empty() {
        return;
    }
    let mut found: HashMap<u64, Holder> = HashMap::new();
    for process in descendants(std::process::id() as i32) {
        let mut handle = None;
        for (descriptor, inode) in open_sockets(process) {
            let Some(cookie) = wanted.get(&inode) else {
                continue;
            };
            if handle.is_none() {
                handle = Process::open(process as u32).ok().map(Arc::new);
            }
            if let Some(handle) = &handle {
                found.insert(*cookie, (Arc::clone(handle), descriptor));
            }
        }
    }
    let mut connections = shared.connections();
    for cookie in wanted.into_values() {
        let holder = found.remove(&cookie);
        let is_found = holder.is_some();
        if let Some(one) = connections.get_mut(cookie) {
            one.holder = holder;
        }
        if is_found {
            connections.schedule(Instant::now(), cookie);
        }
    }
}
