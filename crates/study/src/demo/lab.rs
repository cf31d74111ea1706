//! The two sites of the lab: the file in the west, the command lines of server, client and advisor, and the
//! files that they leave behind.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use fairwind_advice::{ModeRule, Settings};
use fairwind_advisor::local::Local;
use fairwind_advisor::{Clock, PathConfig};
use fairwind_cc::kernel::{PINS_VARIABLE, Pins};
use fairwind_cc::native;
use fairwind_ftp::protocol::digest::Algorithm;
use fairwind_lab::own_mounts;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::geteuid;

use super::day::Day;
use super::story::{BACKGROUND_MODEL, HOP, PATH, Story, Way};
use crate::Error;
use crate::shell;

/// The folder of what the two sites hold, in that of the demonstration; removed at its end.
pub const SITE_FOLDER: &str = "site";
/// In it: the folders of the two sites, the advisor's store, the pinned congestion controls, and the tests that the advisor
/// learns of during a run.
const WEST: &str = "west";
const EAST: &str = "east";
const STATE: &str = "advisor";
const PINS: &str = "pins";
const TESTS: &str = "tests.csv";
/// The file that is moved.
pub const FILE: &str = "random.bin";
/// Where the server listens.
pub const PORT: u16 = 2121;
/// Who may write there, and the password.
const USER: &str = "demo";
/// Where the advisor listens, in the server's host.
pub const ADVISOR: &str = "127.0.0.1:8649";
/// The addresses of the lab's hosts.
pub const NETWORK: &str = "10.77.0.0/16";
/// Bytes that are written, read or hashed at a time.
const PIECE: usize = 1 << 18;

/// What this machine lacks for the lab and its programs, each with what would help.
pub fn missing() -> Vec<String> {
    let said = [
        fairwind_lab::privilege::trial().map_err(|error| error.to_string()),
        fairwind_trace::kernel::check_requirements().map_err(|error| error.to_string()),
        fairwind_cc::kernel::check_requirements().map_err(|error| error.to_string()),
    ];
    let mut missing: Vec<String> = said.into_iter().filter_map(Result::err).collect();
    missing.dedup();
    missing
}

/// Whether curl, the unmodified program, is in `PATH`.
pub fn has_curl() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("curl").is_file())
}

/// What became of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The file that arrived is the one that was sent.
    Identical,
    /// The file that arrived is not the one that was sent.
    Differs,
    /// No file arrived.
    Missing,
}

/// The command lines of one [`Way`].
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `fairwind get`, in the east; or curl, in the west.
    pub client: String,
    /// `fairwind serve`, in the west; for curl, in the east.
    pub server: String,
    /// `fairwind advisor` and the process that reports tests to it, in the west.
    pub advisor: String,
}

/// What all ways share. When dropped, it leaves the kernel and the disk as they were.
#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
    /// Path of the `fairwind` command.
    fairwind: PathBuf,
    checksum: String,
    /// The names in the kernel of nocc and fairwind, loaded for the connections of this run only.
    nocc: String,
    background: String,
    /// Buffer size that both programs request, bytes.
    buffer_bytes: u64,
    story: Story,
    /// The path as the advisor has it.
    path: Option<PathConfig>,
}

impl Site {
    /// Writes the file, gives the advisor the path's history, and loads the congestion controls that advice names
    /// under private names. Everything later is done by the command `fairwind`.
    ///
    /// # Errors
    /// Fails if a congestion control cannot be loaded, a file cannot be written, or the advisor's store cannot be opened or
    /// written.
    pub fn prepare(
        story: &Story,
        day: &Day,
        settings: &Settings,
        buffer_bytes: u64,
        fairwind: PathBuf,
        out: &Path,
    ) -> Result<Site, Error> {
        let out = fs::canonicalize(out)?;
        let mut site = Site {
            folder: out.join(SITE_FOLDER),
            fairwind,
            checksum: String::new(),
            nocc: String::new(),
            background: String::new(),
            buffer_bytes,
            story: story.clone(),
            path: None,
        };
        for folder in [WEST, EAST, STATE, PINS] {
            fs::create_dir_all(site.folder.join(folder))?;
        }
        site.load_controls()?;
        site.checksum = write_random(&site.file(), story.seed, story.file_bytes)?;
        site.teach(day, settings.clone())?;
        let tests = day.tests.iter();
        let rtt_ms = story
            .rtt_ms
            .map_or_else(String::new, |rtt_ms| rtt_ms.to_string());
        let lines =
            tests.map(|test| format!("{},{:.3},{rtt_ms}\n", test.time, test.available_mbps));
        fs::write(site.folder.join(TESTS), lines.collect::<String>())?;
        Ok(site)
    }

    /// Pins the congestion controls in a file system that only this process and its programs see, and that is gone with
    /// them. The server finds there how connections may start.
    fn load_controls(&mut self) -> Result<(), Error> {
        let folder = self.folder.join(PINS);
        let mounted = own_mounts().and_then(|()| {
            Ok(mount(
                "bpf",
                &folder,
                "bpf",
                MountFlags::empty(),
                None::<&CStr>,
            )?)
        });
        mounted.map_err(Error::at(&folder))?;
        let pins = Pins::at(self.pins());
        for (name, loaded) in [("nocc", &mut self.nocc), ("fairwind", &mut self.background)] {
            let control = native::find(name).expect("it is in cc/");
            let parameters = control.default_parameters();
            *loaded = pins.load_private(&parameters).map_err(Error::work)?;
        }
        Ok(())
    }

    fn pins(&self) -> PathBuf {
        self.folder.join(PINS).join("fairwind")
    }

    /// Stores the path's history and settings for the advisor.
    fn teach(&mut self, day: &Day, settings: Settings) -> Result<(), Error> {
        let host = NETWORK.parse().map_err(Error::work)?;
        let mut path = PathConfig::new(PATH, vec![host]);
        path.hops = vec![HOP.to_owned()];
        path.threshold_mbps = settings.threshold_mbps;
        path.capacity_mbps = settings.capacity_mbps;
        path.own = settings.own_path;
        path.model = settings.model;
        path.stale_after_s = settings.stale_after.as_secs() as u32;
        path.controls = settings.controls;
        path.controls.off = self.nocc.clone();
        path.controls.background = self.background.clone();
        path.ping.interval_s = 0;
        self.path = Some(path.clone());
        let local = self.store()?;
        local.put_path(path).map_err(Error::work)?;
        let known = local.path(PATH).map_err(Error::work)?;
        let filled = local.fill(&known, Some(HOP), day.history.clone());
        filled.map(drop).map_err(Error::work)
    }

    /// The advisor's store, which no advisor may be using.
    fn store(&self) -> Result<Local, Error> {
        let clock = Clock::new(Some(self.story.begins), 1.0);
        Local::open(Some(&self.folder.join(STATE)), clock).map_err(Error::work)
    }

    /// Declares the path anew, with the mode that this way's transfers are to have.
    fn declare(&self, way: Way) -> Result<(), Error> {
        let Some(mut path) = self.path.clone() else {
            return Ok(());
        };
        if way == Way::Background {
            path.mode = ModeRule::Background;
            path.model = BACKGROUND_MODEL;
        }
        self.store()?.put_path(path).map(drop).map_err(Error::work)
    }

    /// The command lines of a way.
    ///
    /// # Errors
    /// If a path cannot be a word of the shell, or the server's configuration cannot be written.
    pub fn programs(&self, way: Way) -> Result<Programs, Error> {
        let fairwind = shell_word(&self.fairwind)?;
        let (arrived, config) = (shell_word(&self.arrived(way))?, self.config(way));
        fs::write(&config, self.configuration(way))?;
        if way.is_advised() {
            self.declare(way)?;
        }
        // Other users may have no access to the folder.
        let run_as = if geteuid().is_root() {
            " --run-as root"
        } else {
            ""
        };
        let (at, user) = match way {
            Way::Curl => (EAST, format!(" --user {USER}")),
            _ => (WEST, String::new()),
        };
        let server = format!(
            "FAIRWIND_FTP_PASSWORD={USER} {PINS_VARIABLE}={} exec {fairwind} serve {} --config {} --listen \
             0.0.0.0:{PORT}{run_as}{user}",
            shell_word(&self.pins())?,
            shell_word(&self.folder.join(at))?,
            shell_word(&config)?,
        );
        let client = match way {
            Way::Curl => format!(
                "exec {fairwind} run --background --quiet -- curl --silent --show-error --upload-file {} \
                 ftp://{USER}:{USER}@{{to}}:{PORT}/{}",
                shell_word(&self.file())?,
                file_of(way)
            ),
            _ => format!(
                "exec {fairwind} get ftp://{{to}}:{PORT}/{FILE} {arrived} --buffer {} --no-drs",
                self.buffer_bytes
            ),
        };
        // The advisor's clock starts with the run.
        let advisor = format!(
            "{fairwind} advisor --state {} --listen {ADVISOR} --clock-start {begins} --clock-rate {rate} \
             & exec {fairwind} demo --tests {} http://{ADVISOR} {begins} {rate}",
            shell_word(&self.folder.join(STATE))?,
            shell_word(&self.folder.join(TESTS))?,
            begins = self.story.begins,
            rate = self.story.rate,
        );
        Ok(Programs {
            client,
            server,
            advisor,
        })
    }

    /// The server's configuration: the same buffers in all ways, so that only congestion control differs.
    fn configuration(&self, way: Way) -> String {
        let mut toml = format!("buffer = \"{}\"\ndrs = false\n", self.buffer_bytes);
        if way.is_advised() {
            toml += &format!(
                "advisor = \"http://{ADVISOR}\"\nallow_nocc = [\"{NETWORK}\"]\nadvice_log = {:?}\n",
                self.log(way).display().to_string()
            );
        }
        toml
    }

    /// The file that the server has.
    pub fn file(&self) -> PathBuf {
        self.folder.join(WEST).join(FILE)
    }

    /// Whether the client has the whole file; until then it has another name.
    pub fn has_arrived(&self, way: Way) -> bool {
        self.arrived(way).exists()
    }

    /// Whether the file that arrived this way is the one that was sent. Removes it.
    ///
    /// # Errors
    /// Fails if the file is there but cannot be read.
    pub fn arrival(&self, way: Way) -> Result<Arrival, Error> {
        let path = self.arrived(way);
        let arrival = match checksum(&path) {
            Ok(sum) if sum == self.checksum => Arrival::Identical,
            Ok(_) => Arrival::Differs,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Arrival::Missing,
            Err(error) => return Err(Error::at(&path)(error)),
        };
        // It has been checked; the next one needs the room.
        let _ = fs::remove_file(path);
        Ok(arrival)
    }

    /// The server's log of advice.
    pub fn log(&self, way: Way) -> PathBuf {
        let name = format!("{}.advice.jsonl", way.folder());
        self.folder.with_file_name(name)
    }

    fn config(&self, way: Way) -> PathBuf {
        self.folder.join(format!("{}.toml", way.folder()))
    }

    fn arrived(&self, way: Way) -> PathBuf {
        self.folder.join(EAST).join(file_of(way))
    }
}

/// The name under which the file arrives.
fn file_of(way: Way) -> String {
    format!("{}.bin", way.folder())
}

impl Drop for Site {
    fn drop(&mut self) {
        // The file system may not be there, and neither may the folder.
        let _ = unmount(self.folder.join(PINS), UnmountFlags::DETACH);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Writes a file of random bytes, the same for the same seed, and returns its checksum.
///
/// # Errors
/// If the file cannot be written.
pub fn write_random(path: &Path, seed: u64, bytes: u64) -> io::Result<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut file = BufWriter::with_capacity(PIECE, File::create(path)?);
    let mut sum = Algorithm::Sha256.start();
    let mut left = bytes;
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let length = left.min(PIECE as u64) as usize;
        random.fill_bytes(&mut piece[..length]);
        sum.update(&piece[..length]);
        file.write_all(&piece[..length])?;
        left -= length as u64;
    }
    file.flush()?;
    Ok(sum.finish())
}

fn checksum(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut sum = Algorithm::Sha256.start();
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(sum.finish()),
            length => sum.update(&piece[..length]),
        }
    }
}

/// A path as a word of the shell. Braces are refused because the lab would replace them.
pub fn shell_word(path: &Path) -> Result<String, Error> {
    let text = path.to_str().filter(|text| !text.contains(['{', '}']));
    let text = text.ok_or_else(|| {
        Error::input(format!(
            "{}: the path must be UTF-8 without braces for the shell of the lab",
            path.display()
        ))
    })?;
    Ok(shell::word(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_the_shell() {
        let word = |path: &str| shell_word(Path::new(path));
        assert_eq!(word("/a b").unwrap(), "'/a b'");
        assert_eq!(word("/it's").unwrap(), "'/it'\\''s'");
        assert!(word("/{to}").is_err());
    }

    #[test]
    fn the_checksum_of_the_file_is_that_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("random.bin");
        let sum = write_random(&path, 1, 300_000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 300_000);
        assert_eq!(checksum(&path).unwrap(), sum);
    }
}
