//! What the ends of a flow do, the same in every engine.

use fairwind_scenario::file::flow::{self, Flow};
use fairwind_workload::Application;

/// What the two ends of a flow do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Work<'a> {
    /// Send and receive.
    Traffic(Application),
    /// Run programs, given as command lines for the shell.
    Programs {
        /// The command line in the sending host.
        client: &'a str,
        /// The command line in the receiving host.
        server: Option<&'a str>,
    },
}

impl Work<'_> {
    /// The work that the flow describes.
    pub(crate) fn of(flow: &Flow) -> Work<'_> {
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

    /// Number of simultaneous connections or datagram streams; programs count as one.
    pub(crate) fn connections(&self) -> usize {
        match self {
            Work::Traffic(application) => application.connections(),
            Work::Programs { .. } => 1,
        }
    }
}
