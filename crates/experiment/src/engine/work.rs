//! What the ends of a flow do, the same in every engine.

use fairwind_scenario::file::flow::{self, Flow};
use fairwind_workload::Application;

/// What the two ends of a flow send and receive; none if they run programs.
pub(crate) fn traffic(flow: &Flow) -> Option<Application> {
    Some(match flow.application {
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
        flow::Application::Constant { rate, packet } => Application::ConstantRate { rate, packet },
        flow::Application::OnOff { on, off, random } => Application::OnOff { on, off, random },
        flow::Application::Command { .. } => return None,
    })
}

/// Number of simultaneous connections or datagram streams; programs count as one.
pub(crate) fn connections(flow: &Flow) -> usize {
    traffic(flow).map_or(1, |application| application.connections())
}
