//! Opening connections.

use std::io;
use std::net::SocketAddrV4;

use fairwind_workload::Application;
use rustix::event::epoll::EventFlags;

use super::{Connection, Sender, State};
use crate::application::counts::Counts;
use crate::application::plan::Work;
use crate::application::shared::PendingConnection;
use crate::application::socket::{self, Refused};

impl Sender {
    /// Opens a connection; an error is the text of a failure.
    pub(super) fn open(&mut self, session: usize, bytes: Option<u64>) -> Result<(), String> {
        let flow = &self.flows[self.sessions[session].flow];
        let plan = &flow.plan;
        let to = SocketAddrV4::new(plan.to.address(), plan.port);
        let from = plan.from.address();
        let failed =
            |error: io::Error| format!("opening a connection from {from} to {to}: {error}");
        self.namespaces
            .enter(&plan.from)
            .map_err(|error| error.to_string())?;
        let socket = socket::stream().map_err(failed)?;
        let refused = |Refused { what, error }| {
            format!("{what}, for a connection from {from} to {to}: {error}")
        };
        socket::set_up_sender(&socket, &plan.socket, flow.timestamps).map_err(refused)?;
        if let Work::Traffic(Application::OnOff { .. }) = plan.work {
            socket::limit_unsent(&socket).map_err(refused)?;
        }
        let index = flow.index;
        self.opened += 1;
        let mut connection = Connection {
            session,
            socket,
            state: State::Connecting,
            port: 0,
            left: bytes,
            writing: true,
            before: Counts::default(),
        };
        self.connect(&mut connection, index, to).map_err(failed)?;
        self.connections.insert(self.opened, connection);
        self.sessions[session].connection = Some(self.opened);
        Ok(())
    }

    /// Connects under the latest number, and tells the receiver about the pending connection.
    fn connect(
        &self,
        connection: &mut Connection,
        flow: usize,
        to: SocketAddrV4,
    ) -> io::Result<()> {
        let mut pending = self.shared.pending(flow);
        let opened = self.shared.clock.now();
        socket::connect(&connection.socket, to)?;
        connection.port = socket::local_port(&connection.socket)?;
        let entry = PendingConnection {
            connection: self.opened,
            bytes: connection.left,
            opened,
        };
        pending.insert(connection.port, entry);
        drop(pending);
        self.events
            .add(&connection.socket, self.opened, EventFlags::OUT)
    }
}
