//! Makes the transfers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::report::Report;
use super::{Cell, DRS, Line, STOCK};
use crate::cache::{Cache, Policy, program};
use crate::demo::lab::write_random;
use crate::{Error, Task, parallel, shell};

const MB: u64 = 1 << 20;
/// At 5.2 Mbit/s a larger transfer takes minutes and next to no processor time: such transfers run side by
/// side.
const LONG: u64 = 128;
const SIDE_BY_SIDE: usize = 6;
/// Transfers that are looked at over time, as in Figure 6.
const OVER_TIME: usize = 4;
/// The congestion control of both ends.
const CONTROL: &str = "cubic";

/// A client beside the receiving server: both are in one host, and the sending server in the other. Its
/// arguments are the program, the folder for what arrives, the options of the server, the file, and those of
/// the client.
const BETWEEN_SERVERS: &str = include_str!("between-servers.sh");

/// The transfers of a table: several of each kind and size.
pub(crate) type Cells = BTreeMap<(String, u64), Vec<Report>>;

/// All transfers over a path.
pub(crate) struct Measured<'a> {
    pub line: &'a Line,
    pub client_and_server: Cells,
    /// The same under TLS.
    pub protected: Cells,
    pub servers: Cells,
    /// Those that are looked at over time, and their size.
    pub over_time: Option<(u64, Vec<Report>)>,
}

/// Makes transfers, and keeps them.
pub(crate) struct Bench<'a> {
    task: &'a Task<'a>,
    cache: Cache,
    /// The congestion control of both ends.
    pub control: &'a str,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(task: &'a Task<'a>) -> Bench<'a> {
        Bench {
            task,
            cache: task.cache(""),
            control: control(task),
        }
    }

    /// Makes the transfers that take minutes and little else.
    pub(crate) fn long_ones(&self, cells: &[Cell<'_>]) -> Result<(), Error> {
        if self.task.options.policy == Policy::Nothing {
            return Ok(());
        }
        let is_long = |cell: &&Cell<'_>| cell.kind.word == STOCK && cell.size > LONG;
        let mut long: Vec<Cell> = cells.iter().filter(is_long).copied().collect();
        long.sort_by_key(|cell| std::cmp::Reverse(cell.size));
        for cell in &long {
            // Several of them need the same file.
            self.file(cell.size)?;
        }
        parallel::each(&long, SIDE_BY_SIDE, |cell| self.cell(cell))?;
        Ok(())
    }

    /// Makes the transfers over a path.
    pub(crate) fn measure<'l>(
        &self,
        line: &'l Line,
        cells: &[Cell<'_>],
    ) -> Result<Measured<'l>, Error> {
        let mut measured = Measured {
            line,
            client_and_server: Cells::new(),
            protected: Cells::new(),
            servers: Cells::new(),
            over_time: None,
        };
        for cell in cells {
            if cell.over_time {
                let numbers = (1..=OVER_TIME).map(|number| format!("time-{number}"));
                let reports = numbers.map(|number| self.transfer(cell, &number));
                let reports: Vec<Option<Report>> = reports.collect::<Result<_, _>>()?;
                let reports: Vec<Report> = reports.into_iter().flatten().collect();
                measured.over_time = (!reports.is_empty()).then_some((cell.size, reports));
                continue;
            }
            let reports = self.cell(cell)?;
            let table = match (cell.third_party, cell.protected) {
                (false, false) => &mut measured.client_and_server,
                (false, true) => &mut measured.protected,
                (true, _) => &mut measured.servers,
            };
            if !reports.is_empty() {
                table.insert((cell.kind.word.clone(), cell.size), reports);
            }
        }
        Ok(measured)
    }

    /// The transfers of a cell. If an earlier study made more of them, they count, too.
    fn cell(&self, cell: &Cell<'_>) -> Result<Vec<Report>, Error> {
        let asked = self.asked(cell);
        let wanted = self.task.options.repetitions.unwrap_or(1);
        let mut reports = Vec::new();
        for number in 1.. {
            let number = number.to_string();
            let is_there = || {
                let kept: Option<Report> = self.cache.kept(&name(cell, &number), &asked);
                kept.is_some()
            };
            if reports.len() >= wanted && !is_there() {
                break;
            }
            match self.transfer(cell, &number)? {
                Some(report) => reports.push(report),
                None => break,
            }
        }
        Ok(reports)
    }

    /// The report of one transfer; none if there is none and nothing is to be run.
    fn transfer(&self, cell: &Cell<'_>, number: &str) -> Result<Option<Report>, Error> {
        let name = name(cell, number);
        self.cache.kept_or_run(&name, &self.asked(cell), || {
            self.task.host.go_on()?;
            let report = self.make(cell, &name)?;
            let warnings: String = report
                .warnings
                .iter()
                .map(|line| format!(" {line}"))
                .collect();
            self.task
                .tell(&format!("{name}: {:.2} Mbit/s{warnings}", report.mbps()));
            Ok(report)
        })
    }

    /// All that a transfer depends on.
    fn asked(&self, cell: &Cell<'_>) -> Value {
        json!({
            "bandwidth": cell.line.bandwidth,
            "queue": cell.line.queue,
            "options": cell.kind.options(cell.line),
            "size": cell.size,
            "third_party": cell.third_party,
            "protected": cell.protected,
            "control": self.control,
            "kernel": fairwind_kernel::release(),
        })
    }

    fn make(&self, cell: &Cell<'_>, name: &str) -> Result<Report, Error> {
        fairwind_lab::privilege::check().map_err(Error::work)?;
        fs::create_dir_all(self.task.out).map_err(Error::at(self.task.out))?;
        let received = tempfile::Builder::new()
            .prefix("received-")
            .tempdir_in(self.task.out)
            .map_err(Error::at(self.task.out))?;
        let received = fs::canonicalize(received.path())?;
        let arguments = self.arguments(cell, &received)?;
        let output = Command::new(&self.task.host.fairwind)
            .args(&arguments)
            .env("FAIRWIND_FTP_PASSWORD", "bench")
            .output()
            .map_err(Error::at(&self.task.host.fairwind))?;
        self.task.host.go_on()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let status = output.status;
            return Err(Error::work(format!(
                "{name}: {arguments:?}\n{said}{status}"
            )));
        }
        let transfer = transfer_of(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| Error::work(format!("{name}: no report: {said}")))?;
        if transfer["bytes"].as_u64() != Some(cell.size * MB) {
            let (bytes, size) = (&transfer["bytes"], cell.size * MB);
            return Err(Error::work(format!(
                "{name}: {bytes} bytes moved instead of {size}"
            )));
        }
        let warnings = said.lines().filter(|line| line.starts_with("warning:"));
        Ok(Report {
            transfer,
            warnings: warnings.map(str::to_owned).collect(),
            day: Timestamp::now().strftime("%Y-%m-%d").to_string(),
            program: program().to_owned(),
        })
    }

    /// What the command is called with.
    fn arguments(&self, cell: &Cell<'_>, received: &Path) -> Result<Vec<OsString>, Error> {
        let fairwind = &self.task.host.fairwind;
        let options = cell.kind.options(cell.line);
        let file = self.file(cell.size)?;
        let served = fs::canonicalize(self.served())?;
        let mut server = format!(
            "{} serve {} --listen 0.0.0.0:21 --run-as root {}",
            shell::word(&fairwind.to_string_lossy()),
            shell::word(&served.to_string_lossy()),
            options.join(" ")
        );
        if cell.protected {
            let [certificate, key] = self.certificate()?;
            server += &format!(
                " --tls-required --tls-certificate {} --tls-key {}",
                shell::word(&certificate.to_string_lossy()),
                shell::word(&key.to_string_lossy())
            );
        }
        let mut arguments: Vec<OsString> = ["lab", "exec", "--bandwidth", &cell.line.bandwidth]
            .into_iter()
            .chain(["--delay", "50ms", "--queue", &cell.line.queue])
            .chain(["--congestion-control", self.control])
            .chain(["--server", server.trim_end(), "--"])
            .map(OsString::from)
            .collect();
        let moving = ["--json", "--checksum", "off", "--no-resume"];
        if cell.third_party {
            // A client that only directs has no buffers of its own.
            let sizing = if cell.kind.word == DRS {
                ""
            } else {
                " --no-drs"
            };
            let moving = moving.join(" ") + sizing;
            arguments.extend(["sh", "-c", BETWEEN_SERVERS].map(OsString::from));
            arguments.extend([fairwind.into(), received.into()]);
            arguments.extend([options.join(" "), file, moving].map(OsString::from));
        } else {
            let scheme = if cell.protected { "ftpes" } else { "ftp" };
            let from = format!("{scheme}://{{peer}}/{file}");
            arguments.extend([fairwind.into(), "get".into(), from.into()]);
            if cell.protected {
                arguments.push("--tls-insecure".into());
            }
            arguments.push(received.join(&file).into());
            arguments.extend(moving.map(OsString::from));
            arguments.extend(options.into_iter().map(OsString::from));
        }
        Ok(arguments)
    }

    /// A certificate for any host, and its key, which are made unless they are there. Clients do not check it.
    fn certificate(&self) -> Result<[PathBuf; 2], Error> {
        let folder = fs::canonicalize(self.task.out)?;
        let paths = ["certificate.pem", "key.pem"].map(|name| folder.join(name));
        if !paths.iter().all(|path| path.exists()) {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])
                .map_err(Error::work)?;
            let texts = [made.cert.pem(), made.signing_key.serialize_pem()];
            for (path, text) in paths.iter().zip(texts) {
                fs::write(path, text).map_err(Error::at(path))?;
            }
        }
        Ok(paths)
    }

    fn served(&self) -> PathBuf {
        self.task.out.join("served")
    }

    /// The name of the file of this size, which is made unless it is there.
    fn file(&self, size: u64) -> Result<String, Error> {
        let name = format!("{size}MB");
        let served = self.served();
        let path = served.join(&name);
        let length = fs::metadata(&path).map(|there| there.len());
        if length.ok() != Some(size * MB) {
            fs::create_dir_all(&served).map_err(Error::at(&served))?;
            write_random(&path, size, size * MB).map_err(Error::at(&path))?;
        }
        Ok(name)
    }
}

/// The congestion control of both ends.
pub(crate) fn control<'a>(task: &'a Task<'_>) -> &'a str {
    task.options
        .congestion_control
        .as_deref()
        .unwrap_or(CONTROL)
}

/// The name of a transfer's record.
fn name(cell: &Cell<'_>, number: &str) -> String {
    let what = match (cell.third_party, cell.protected) {
        (false, false) => "client-server",
        (false, true) => "client-server-tls",
        (true, _) => "third-party",
    };
    let (line, kind, size) = (&cell.line.word, &cell.kind.word, cell.size);
    format!("{line}-{what}-{kind}-{size}MB-{number}")
}

/// The transfer in what a command has printed; programs beside it may have printed something before.
fn transfer_of(printed: &str) -> Option<Value> {
    let (_, report) = printed.split_once('{')?;
    let mut report: Value = serde_json::from_str(&format!("{{{report}")).ok()?;
    Some(report["transfers"].get_mut(0)?.take())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_follows_whatever_else_was_printed() {
        let printed = "listening\n{ \"transfers\": [{ \"mbps\": 6.4 }] }\n";
        assert_eq!(transfer_of(printed), Some(json!({ "mbps": 6.4 })));
        assert_eq!(transfer_of("nothing"), None);
        assert_eq!(transfer_of("{ \"transfers\": [] }"), None);
    }
}
