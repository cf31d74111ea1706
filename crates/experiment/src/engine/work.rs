//! What the ends of a flow of the file do, the same in every engine.

use fairwind_workload::Application;

use crate::file::flow::{self, Flow};

/// What a flow's ends do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work<'a> {
    /// Send and receive.
    Traffic(Application),
    /// Run programs, by command lines for the shell.
    Programs {
        /// Where the flow comes from.
        client: &'a str,
        /// Where it goes.
        server: Option<&'a str>,
    },
}

impl Work<'_> {
    /// What the flow asks for.
    pub fn of(flow: &Flow) -> Work<'_> {
        Work::Traffic(match flow.application {
            flow::Application::Bulk => Application::Bulk { bytes: flow.bytes },
            flow::Application::Web {
                sessions,
                object_mean,
                object_shape,
                think_mean,
            } => Application::Web {
                sessions,
                object_mean,
                object_shape,
                think_mean,
            },
            flow::Application::Constant { rate, packet } => {
                Application::ConstantRate { rate, packet }
            }
            flow::Application::OnOff { on, off, random } => Application::OnOff { on, off, random },
            flow::Application::Command {
                ref client,
                ref server,
            } => {
                return Work::Programs {
                    client,
                    server: server.as_deref(),
                };
            }
        })
    }

    /// Connections at a time, or streams of datagrams; programs count as one.
    pub fn connections(&self) -> usize {
        match self {
            Work::Traffic(application) => application.connections(),
            Work::Programs { .. } => 1,
        }
    }
}
