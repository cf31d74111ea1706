//! The path of `fairwind lab exec`: options for the fields of a link, read as in an experiment file.

use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_lab::exec::ExecConfig;
use fairwind_scenario::file::arguments::{self, LinkArgument};
use fairwind_scenario::file::link::{Direction, Link};
use fairwind_scenario::pipes;

use crate::failure::Failure;

/// What the path is like; both directions are alike where `reverse` says nothing.
#[derive(Args)]
pub(crate) struct PathOptions {
    /// Bandwidth of each direction; counts IP packets with their headers, as in the simulator [default:
    /// unlimited]
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<String>,
    /// Delay of each direction; a round trip takes twice this [default: 0ms]
    #[arg(long, value_name = "TIME")]
    delay: Option<String>,
    /// Queue of each direction in packets (100pkt) or bytes (75kB), including the packet in transmission; needs
    /// a bandwidth [default: 50pkt]
    #[arg(long, value_name = "AMOUNT")]
    queue: Option<String>,
    /// Share of packets lost at random before the queue, each packet independently [default: 0%]
    #[arg(long, value_name = "SHARE")]
    loss: Option<String>,
    /// Set any field that a link of an experiment file has; with `reverse.` before it, for the way back alone;
    /// repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Play recordings of bandwidth, delay and loss faster by this factor, 0.001 to 1000; only with a recording
    /// [default: 1]
    #[arg(long, value_name = "TIMES", value_parser = time_scale)]
    time_scale: Option<f64>,
    /// Write the packets that reach the far end to this pcapng file, and those that come back to the same name
    /// with .reverse in it
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
}

impl PathOptions {
    /// Sets the path in the configuration.
    pub(crate) fn apply(&self, config: &mut ExecConfig) -> Result<(), Failure> {
        let link = self.link()?;
        config.there = pipes::pipe(&link.forward);
        config.back = pipes::pipe(&link.reverse);
        config.classes = [ports(&link.forward), ports(&link.reverse)];
        config.capture = self
            .capture
            .as_ref()
            .map(|file| [file.clone(), reverse(file)]);
        Ok(())
    }

    fn link(&self) -> Result<Link, Failure> {
        let options = [
            ("--bandwidth", "bandwidth", &self.bandwidth),
            ("--delay", "delay", &self.delay),
            ("--queue", "queue", &self.queue),
            ("--loss", "loss", &self.loss),
        ];
        let options = options.into_iter().filter_map(|(option, field, text)| {
            Some(LinkArgument {
                option,
                field: Some(field),
                text: text.clone()?,
            })
        });
        let set = self.set.iter().map(|text| LinkArgument {
            option: "--set",
            field: None,
            text: text.clone(),
        });
        let all: Vec<LinkArgument> = options.chain(set).collect();
        let link = arguments::link(&all, Path::new(""), self.time_scale.unwrap_or(1.0))?;
        let follows_traces = link.forward.follows_traces() || link.reverse.follows_traces();
        if self.time_scale.is_some() && !follows_traces {
            return Err(Failure::input(
                "--time-scale has no effect on a path without a recorded trace: write \
                 --set 'bandwidth={trace=\"FILE\"}', too",
            ));
        }
        Ok(link)
    }
}

/// The ports in a scheduler, in the order of its classes.
fn ports(direction: &Direction) -> Vec<u16> {
    let names = direction.scheduler.names();
    let ports = names.iter().filter_map(|name| arguments::port(&name.value));
    ports.collect()
}

/// `x.reverse.pcapng` for `x.pcapng`.
fn reverse(file: &Path) -> PathBuf {
    match file.extension() {
        Some(extension) => {
            let mut end = std::ffi::OsString::from("reverse.");
            end.push(extension);
            file.with_extension(end)
        }
        None => file.with_extension("reverse"),
    }
}

fn time_scale(text: &str) -> Result<f64, String> {
    let times = text.parse().ok();
    let times = times.filter(|times| (0.001..=1000.0).contains(times));
    times.ok_or_else(|| "write a number from 0.001 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_has_a_file_beside_the_other() {
        assert_eq!(
            reverse(Path::new("a/x.pcapng")),
            Path::new("a/x.reverse.pcapng")
        );
        assert_eq!(reverse(Path::new("x")), Path::new("x.reverse"));
    }
}
