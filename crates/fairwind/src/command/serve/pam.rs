//! System users by PAM (pam(3)): a process keeps the rights of the start and has one more process check each
//! password, so that a module that hangs or crashes holds up nobody else. libpam is loaded when it is needed: the
//! program starts also where there is none.
//!
//! With sessions, that process stays until its user has left, and closes what the modules have opened.
//!
//! The server sends a socket for each login; the request and the answer, a line of JSON each, pass over that.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use fairwind_ftp::server::{Authenticator, LoggedIn, Login, Opened, SystemUser};
use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::unistd::{ForkResult, Group, User, fork, getgrouplist};

use super::keeper::{receive, send};
use super::privileges::require_single_thread;

const LIBRARY: &CStr = c"libpam.so.0";

/// Longest request and answer, bytes.
const LONGEST: u64 = 64 << 10;

/// What is told about a login: the user, none, or why that is not known.
type Told = Result<Option<SystemUser>, String>;

/// Starts the process, which ends with this one; passwords are checked by this PAM service.
///
/// # Errors
/// Fails if libpam or the service is missing, there are threads already, or the process cannot be created.
pub(crate) fn start(service: &str) -> io::Result<Authenticator> {
    require_single_thread()?;
    let is_name =
        !service.is_empty() && !service.starts_with('.') && !service.contains(['/', '\0']);
    if !is_name {
        return Err(io::Error::other(format!(
            "{service:?} is not the name of a PAM service"
        )));
    }
    let places = ["/etc/pam.d", "/usr/lib/pam.d"];
    if !places
        .iter()
        .any(|place| std::path::Path::new(place).join(service).exists())
    {
        return Err(io::Error::other(format!(
            "there is no PAM service {service}: /etc/pam.d/{service} is missing"
        )));
    }
    // In time to say that it is missing; the processes load it again for themselves.
    Library::load().map_err(io::Error::other)?;
    let (line, far) = UnixStream::pair()?;
    let service = CString::new(service)?;
    // SAFETY: the process has a single thread, so in the child no lock is held and all memory is consistent.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(line);
            let done = serve(&service, &far);
            std::process::exit(i32::from(done.is_err()));
        }
        ForkResult::Parent { .. } => {}
    }
    let line = Mutex::new(line);
    Ok(Authenticator::by(move |login| ask(&line, login)))
}

/// Asks the process about a login.
fn ask(line: &Mutex<UnixStream>, login: &Login) -> io::Result<Option<LoggedIn>> {
    let (mut near, far) = UnixStream::pair()?;
    {
        let line = line.lock().unwrap_or_else(PoisonError::into_inner);
        send(&line, 0, Some(&File::from(OwnedFd::from(far))))?;
    }
    let patience = login.patience + std::time::Duration::from_secs(1);
    near.set_read_timeout(Some(patience))?;
    near.set_write_timeout(Some(patience))?;
    near.write_all(format!("{}\n", serde_json::to_string(login)?).as_bytes())?;
    let mut answer = String::new();
    BufReader::new(&near).take(LONGEST).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::other("PAM has not answered in time, or crashed"));
    }
    let told: Told = serde_json::from_str(&answer)?;
    let user = told.map_err(io::Error::other)?;
    // The session ends when the process finds this end of the socket closed.
    let opened = login.opens_session.then(|| Opened::with(near));
    Ok(user.map(|user| (user, opened)))
}

/// Starts a process for each login until the server has gone.
fn serve(service: &CStr, line: &UnixStream) -> io::Result<()> {
    // Signals that end the server must not end this process, and nobody waits for its children.
    SigSet::all().thread_block()?;
    // SAFETY: no handler is installed.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }?;
    while let Some((_, socket)) = receive(line)? {
        let Some(socket) = socket else { continue };
        // SAFETY: this process has a single thread.
        if let Ok(ForkResult::Child) = unsafe { fork() } {
            let done = check(service, UnixStream::from(socket));
            std::process::exit(i32::from(done.is_err()));
        }
    }
    Ok(())
}

/// Checks one login, in a process of its own.
fn check(service: &CStr, mut socket: UnixStream) -> io::Result<()> {
    // Modules run programs of their own, and wait for them.
    // SAFETY: no handler is installed.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
    SigSet::all().thread_unblock()?;
    let mut request = String::new();
    BufReader::new(&socket)
        .take(LONGEST)
        .read_line(&mut request)?;
    let login: Login = serde_json::from_str(&request)?;
    limit(&login);
    let library = match Library::load() {
        Ok(library) => library,
        Err(error) => return answer(&mut socket, &Err(error)),
    };
    let (Ok(name), Ok(password)) = (
        CString::new(login.name.as_str()),
        CString::new(login.password.as_slice()),
    ) else {
        return answer(&mut socket, &Ok(None));
    };
    let conversation = Conversation {
        converse,
        data: password.as_ptr().cast_mut().cast(),
    };
    let mut transaction = match Transaction::start(&library, service, &name, &conversation) {
        Ok(transaction) => transaction,
        Err(error) => return answer(&mut socket, &Err(error)),
    };
    let told = transaction.log_in(&login);
    let is_in = matches!(told, Ok(Some(_)));
    let told = match is_in && login.opens_session {
        true => transaction.open_session().and(told),
        false => told,
    };
    answer(&mut socket, &told)?;
    if login.opens_session && told.is_ok() && is_in {
        // Whoever ends the server, as systemd does, by a watchdog too, may send the same signal to all its processes.
        // This one ends after the server.
        let ending = [
            Signal::SIGABRT,
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGHUP,
            Signal::SIGQUIT,
        ];
        SigSet::from_iter(ending).thread_block()?;
        nix::unistd::alarm::cancel();
        while socket
            .read(&mut [0])
            .is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
        {}
        limit(&login);
        transaction.close_session();
    }
    Ok(())
}

/// Ends this process in time, whatever a module waits for.
fn limit(login: &Login) {
    nix::unistd::alarm::set(u32::try_from(login.patience.as_secs()).unwrap_or(60).max(1));
}

fn answer(socket: &mut UnixStream, told: &Told) -> io::Result<()> {
    socket.write_all(format!("{}\n", serde_json::to_string(told)?).as_bytes())
}

#[repr(C)]
struct Message {
    style: c_int,
    text: *const c_char,
}

#[repr(C)]
struct Response {
    text: *mut c_char,
    code: c_int,
}

#[repr(C)]
struct Conversation {
    converse: extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int,
    data: *mut c_void,
}

/// `_pam_types.h` of Linux-PAM.
mod code {
    use super::c_int;

    pub(super) const SUCCESS: c_int = 0;
    /// Also what pam_exec(8) makes of a program that fails.
    pub(super) const SYSTEM_ERROR: c_int = 4;
    pub(super) const BUFFER_ERROR: c_int = 5;
    pub(super) const PERMISSION_DENIED: c_int = 6;
    pub(super) const AUTHENTICATION_FAILED: c_int = 7;
    pub(super) const USER_UNKNOWN: c_int = 10;
    pub(super) const TOO_MANY_TRIES: c_int = 11;
    pub(super) const NEW_PASSWORD_REQUIRED: c_int = 12;
    pub(super) const ACCOUNT_EXPIRED: c_int = 13;
    pub(super) const CONVERSATION_ERROR: c_int = 19;

    /// Flags of pam_setcred(3).
    pub(super) const ESTABLISH_CREDENTIALS: c_int = 2;
    pub(super) const DELETE_CREDENTIALS: c_int = 4;

    pub(super) const PROMPT_ECHO_OFF: c_int = 1;
    pub(super) const PROMPT_ECHO_ON: c_int = 2;

    pub(super) const ITEM_USER: c_int = 2;
    pub(super) const ITEM_TTY: c_int = 3;
    pub(super) const ITEM_REMOTE_HOST: c_int = 4;
}

type Start = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const Conversation,
    *mut *mut c_void,
) -> c_int;
type Step = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type SetItem = unsafe extern "C" fn(*mut c_void, c_int, *const c_void) -> c_int;
type GetItem = unsafe extern "C" fn(*const c_void, c_int, *mut *const c_void) -> c_int;

/// The functions of libpam.
struct Library {
    start: Start,
    end: Step,
    authenticate: Step,
    account: Step,
    credentials: Step,
    open_session: Step,
    close_session: Step,
    set_item: SetItem,
    get_item: GetItem,
}

impl Library {
    fn load() -> Result<Self, String> {
        // SAFETY: the name is a C string; the library's initialisation has no preconditions.
        let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            return Err("libpam.so.0 is missing; Debian has it in libpam0g".into());
        }
        let find = |name: &CStr| {
            // SAFETY: the handle is that of an open library, the name a C string.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            match found.is_null() {
                true => Err(format!("libpam.so.0 has no {}", name.to_string_lossy())),
                false => Ok(found),
            }
        };
        // SAFETY: these are the functions of that name, with the types of security/pam_appl.h.
        unsafe {
            Ok(Self {
                start: std::mem::transmute::<*mut c_void, Start>(find(c"pam_start")?),
                end: std::mem::transmute::<*mut c_void, Step>(find(c"pam_end")?),
                authenticate: std::mem::transmute::<*mut c_void, Step>(find(c"pam_authenticate")?),
                account: std::mem::transmute::<*mut c_void, Step>(find(c"pam_acct_mgmt")?),
                credentials: std::mem::transmute::<*mut c_void, Step>(find(c"pam_setcred")?),
                open_session: std::mem::transmute::<*mut c_void, Step>(find(c"pam_open_session")?),
                close_session: std::mem::transmute::<*mut c_void, Step>(find(
                    c"pam_close_session",
                )?),
                set_item: std::mem::transmute::<*mut c_void, SetItem>(find(c"pam_set_item")?),
                get_item: std::mem::transmute::<*mut c_void, GetItem>(find(c"pam_get_item")?),
            })
        }
    }
}

/// A login, from pam_start(3) to pam_end(3).
struct Transaction<'a> {
    library: &'a Library,
    handle: *mut c_void,
    /// Of the last call.
    result: c_int,
    conversation: PhantomData<&'a Conversation>,
}

impl<'a> Transaction<'a> {
    fn start(
        library: &'a Library,
        service: &CStr,
        name: &CStr,
        conversation: &'a Conversation,
    ) -> Result<Self, String> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: libpam copies the strings, and the conversation outlives the handle.
        let result =
            unsafe { (library.start)(service.as_ptr(), name.as_ptr(), conversation, &mut handle) };
        match result {
            code::SUCCESS => Ok(Self {
                library,
                handle,
                result,
                conversation: PhantomData,
            }),
            error => Err(format!("pam_start: {error}")),
        }
    }

    fn step(&mut self, step: Step, flags: c_int) -> bool {
        // SAFETY: the handle is that of pam_start, until this is dropped.
        self.result = unsafe { step(self.handle, flags) };
        self.result == code::SUCCESS
    }

    fn set_item(&mut self, item: c_int, text: &CStr) {
        // SAFETY: the handle is that of pam_start, and libpam copies the text.
        unsafe { (self.library.set_item)(self.handle, item, text.as_ptr().cast()) };
    }

    /// The user who may log in.
    fn log_in(&mut self, login: &Login) -> Told {
        let peer = CString::new(login.peer.to_string()).map_err(|error| error.to_string())?;
        self.set_item(code::ITEM_REMOTE_HOST, &peer);
        self.set_item(code::ITEM_TTY, c"ftp");
        let library = self.library;
        if self.step(library.authenticate, 0) && self.step(library.account, 0) {
            return self.user().map_or(Ok(None), |user| system_user(&user));
        }
        match self.result {
            code::SYSTEM_ERROR
            | code::PERMISSION_DENIED
            | code::AUTHENTICATION_FAILED
            | code::USER_UNKNOWN
            | code::TOO_MANY_TRIES
            | code::NEW_PASSWORD_REQUIRED
            | code::ACCOUNT_EXPIRED => Ok(None),
            other => Err(format!(
                "PAM fails with error {other}; the system's log may say why"
            )),
        }
    }

    /// The user's name, which a module may have changed.
    fn user(&self) -> Option<CString> {
        let mut item = std::ptr::null();
        // SAFETY: the handle is that of pam_start; the text lives until the item is set again.
        unsafe {
            let told = (self.library.get_item)(self.handle, code::ITEM_USER, &mut item);
            (told == code::SUCCESS && !item.is_null())
                .then(|| CStr::from_ptr(item.cast()).to_owned())
        }
    }

    fn open_session(&mut self) -> Result<(), String> {
        let library = self.library;
        let why = match self.step(library.credentials, code::ESTABLISH_CREDENTIALS) {
            false => "gives no credentials",
            true if self.step(library.open_session, 0) => return Ok(()),
            true => "opens no session",
        };
        let error = self.result;
        self.step(library.credentials, code::DELETE_CREDENTIALS);
        Err(format!(
            "PAM {why} (error {error}); the system's log may say why"
        ))
    }

    fn close_session(&mut self) {
        let library = self.library;
        self.step(library.close_session, 0);
        self.step(library.credentials, code::DELETE_CREDENTIALS);
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is that of pam_start, and not used any more.
        unsafe { (self.library.end)(self.handle, self.result) };
    }
}

fn system_user(name: &CStr) -> Told {
    let found = User::from_name(&name.to_string_lossy()).map_err(|error| error.to_string())?;
    let Some(user) = found else {
        return Ok(None);
    };
    let groups = getgrouplist(name, user.gid).map_err(|error| error.to_string())?;
    Ok(Some(SystemUser {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        group_names: groups
            .iter()
            .filter_map(|group| Some(Group::from_gid(*group).ok()??.name))
            .collect(),
        groups: groups.iter().map(|group| group.as_raw()).collect(),
    }))
}

/// Answers what a module asks: the password, whatever the prompt, as long as it is not to be shown.
extern "C" fn converse(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    password: *mut c_void,
) -> c_int {
    let Ok(count) = usize::try_from(count) else {
        return code::CONVERSATION_ERROR;
    };
    // SAFETY: libpam passes `count` messages, frees the array and its texts, which calloc and strdup have made, and
    // passes the password that the conversation holds.
    unsafe {
        let made: *mut Response = libc::calloc(count.max(1), size_of::<Response>()).cast();
        if made.is_null() {
            return code::BUFFER_ERROR;
        }
        for index in 0..count {
            let message = &**messages.add(index);
            match message.style {
                code::PROMPT_ECHO_OFF => (*made.add(index)).text = libc::strdup(password.cast()),
                // There is nothing else to answer; the name is known.
                code::PROMPT_ECHO_ON => (*made.add(index)).text = libc::strdup(c"".as_ptr()),
                _ => {}
            }
        }
        *responses = made;
    }
    code::SUCCESS
}
