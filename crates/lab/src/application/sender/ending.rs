//! Ending connections: after a failure, when complete, or at the end of the run.

use std::io;
use std::os::fd::OwnedFd;

use fairwind_path::units::{Duration, Time};

use super::{
    DRAIN_INTERVAL_MAX, DRAIN_INTERVAL_MIN, Due, FromReceiver, RETRY_DELAY, Release, Sender, State,
};
use crate::application::socket;

impl Sender {
    /// Removes and reports a connection that failed.
    pub(super) fn on_failure(&mut self, number: u64, error: &io::Error) {
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        let session = connection.session;
        let flow = &mut self.flows[self.sessions[session].flow];
        flow.counts
            .add_since(socket::counts(&connection.socket), connection.before);
        let text = format!("{} failed: {error}", flow.plan.connection());
        self.shared.pending(flow.index).remove(&connection.port);
        self.shared.fail(flow.index, text);
        self.sessions[session].connection = None;
        self.schedule_retry(session, self.shared.clock.now());
    }

    /// Lets a session whose connection failed continue, but not immediately.
    pub(super) fn schedule_retry(&mut self, session: usize, now: Time) {
        if let Some(again) = self.sessions[session].driver.on_complete(now) {
            self.timers
                .set(again.max(now + RETRY_DELAY), Due::Application(session));
        }
    }

    pub(super) fn on_message(&mut self, message: FromReceiver) {
        match message {
            FromReceiver::Released { connection } => {
                if let Some(connection) = self.connections.remove(&connection) {
                    socket::close_silently(connection.socket);
                }
            }
            FromReceiver::Complete {
                connection,
                incoming,
                at,
            } => self.on_complete(connection, incoming, at),
        }
    }

    fn on_complete(&mut self, number: u64, incoming: u64, at: Time) {
        let Some(connection) = self.connections.get_mut(&number) else {
            // It failed meanwhile; only the receiver's end is left.
            let connection = number;
            return self.events.send(Release {
                incoming,
                connection,
            });
        };
        let session = &mut self.sessions[connection.session];
        let flow = &mut self.flows[session.flow];
        flow.counts
            .add_since(socket::counts(&connection.socket), connection.before);
        connection.state = State::Draining {
            incoming,
            wait: DRAIN_INTERVAL_MIN,
        };
        self.events.remove(&connection.socket);
        session.connection = None;
        if let Some(again) = session.driver.on_complete(at) {
            self.timers.set(again, Due::Application(connection.session));
        }
        self.on_drain(at, number);
    }

    /// Releases a connection whose last byte has been acknowledged; otherwise checks again later.
    pub(super) fn on_drain(&mut self, now: Time, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let State::Draining { incoming, wait } = connection.state else {
            return;
        };
        if socket::is_drained(&connection.socket) {
            return self.events.send(Release {
                incoming,
                connection: number,
            });
        }
        connection.state = State::Draining {
            incoming,
            wait: Duration::from_nanos(2 * wait.as_nanos()).min(DRAIN_INTERVAL_MAX),
        };
        self.timers.set(now + wait, Due::Drain(number));
    }

    pub(super) fn report(mut self) -> Vec<OwnedFd> {
        let mut sockets = Vec::new();
        for connection in self.connections.into_values() {
            let flow = &mut self.flows[self.sessions[connection.session].flow];
            if matches!(connection.state, State::Connecting | State::Open) {
                flow.counts
                    .add_since(socket::counts(&connection.socket), connection.before);
            }
            self.events.remove(&connection.socket);
            sockets.push(connection.socket);
        }
        let mut outcomes = self.shared.outcomes();
        for flow in self.flows {
            outcomes[flow.index].set_sent(flow.counts, flow.switched);
        }
        sockets
    }
}
