//! What the first process of the programs reports: lines in a pipe.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// A report about running programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProgramEvent {
    /// The PID of the namespace's first process, in this process' PID namespace.
    FirstProcess(i32),
    /// The command ended with this exit code; 128 plus the signal's number if a signal ended it.
    CommandEnded(u8),
    /// A server failed while the command ran.
    ServerEnded(String),
    /// The programs could not be run.
    Failed(String),
}

impl ProgramEvent {
    /// Writes the report as one line.
    pub(crate) fn write(&self, mut pipe: &PipeWriter) {
        // Fails only if nobody reads the reports any more.
        let _ = pipe.write_all(self.line().as_bytes());
    }

    fn line(&self) -> String {
        let (kind, text) = match self {
            ProgramEvent::FirstProcess(pid) => ('P', pid.to_string()),
            ProgramEvent::CommandEnded(code) => ('C', code.to_string()),
            ProgramEvent::ServerEnded(text) => ('S', text.clone()),
            ProgramEvent::Failed(text) => ('F', text.clone()),
        };
        format!("{kind}{}\n", text.replace('\n', " "))
    }

    fn parse(line: &str) -> Option<ProgramEvent> {
        let line = line.trim_end_matches('\n');
        let text = line.get(1..)?;
        match line.get(..1)? {
            "P" => text.parse().ok().map(ProgramEvent::FirstProcess),
            "C" => text.parse().ok().map(ProgramEvent::CommandEnded),
            "S" => Some(ProgramEvent::ServerEnded(text.to_owned())),
            "F" => Some(ProgramEvent::Failed(text.to_owned())),
            _ => None,
        }
    }
}

/// Reads reports, line by line.
pub(super) struct ReportReader {
    pipe: PipeReader,
    unparsed: Vec<u8>,
    ended: bool,
}

impl ReportReader {
    pub(super) fn new(pipe: PipeReader) -> ReportReader {
        ReportReader {
            pipe,
            unparsed: Vec::new(),
            ended: false,
        }
    }

    /// Reads once, waiting if there is nothing to read.
    pub(super) fn read(&mut self, on_report: &mut impl FnMut(ProgramEvent)) {
        let mut buffer = [0; 4096];
        let len = self.pipe.read(&mut buffer).unwrap_or(0);
        self.ended = len == 0;
        self.unparsed.extend(&buffer[..len]);
        while let Some(end) = self.unparsed.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.unparsed.drain(..=end).collect();
            if let Some(report) = ProgramEvent::parse(&String::from_utf8_lossy(&line)) {
                on_report(report);
            }
        }
    }

    /// Reads until all writers have closed the pipe.
    pub(super) fn read_to_end(&mut self, on_report: &mut impl FnMut(ProgramEvent)) {
        while !self.ended {
            self.read(on_report);
        }
    }
}

impl AsFd for ReportReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn reports_are_lines() {
        let report = ProgramEvent::ServerEnded("two\nlines".to_owned());
        assert_eq!(report.line(), "Stwo lines\n");
        assert_eq!(
            ProgramEvent::parse("C7\n"),
            Some(ProgramEvent::CommandEnded(7))
        );
        assert_eq!(ProgramEvent::parse("\n"), None);
    }

    #[test]
    fn reports_of_a_process_that_has_ended_are_read_to_the_end() {
        let (pipe, writer) = io::pipe().unwrap();
        ProgramEvent::Failed("no".to_owned()).write(&writer);
        ProgramEvent::CommandEnded(3).write(&writer);
        drop(writer);
        let mut read = Vec::new();
        ReportReader::new(pipe).read_to_end(&mut |report| read.push(report));
        let expected = [
            ProgramEvent::Failed("no".to_owned()),
            ProgramEvent::CommandEnded(3),
        ];
        assert_eq!(read, expected);
    }
}
