//! Right-sizing in the server: `DRS` in the reply to FEAT, `OPTS DRS`.

use fairwind_transfer::drs::{Budget, Caps, RightSizing, Settings, SharedRecord, Token};
use fairwind_transfer::{SocketPlan, Transfer, TransferWatcher};

use super::NAME;
use crate::extension::TransferExtension;
use crate::protocol::Reply;
use crate::server::{Extension, Origin, PeerFacts, SessionExtension};

/// Right-sizing with clients that ask for it.
#[derive(Debug, Clone, Default)]
pub struct RightSizingServer {
    /// What all buffers together have taken.
    pub budget: Budget,
    /// Limits on the budget.
    pub caps: Caps,
}

impl Extension for RightSizingServer {
    fn open(&self, facts: &PeerFacts) -> Box<dyn SessionExtension> {
        Box::new(Session {
            server: self.clone(),
            client: facts.peer.ip().into(),
            token: None,
        })
    }
}

struct Session {
    server: RightSizingServer,
    client: Origin,
    /// What the client gave; none if it has not asked for right-sizing.
    token: Option<Token>,
}

impl TransferExtension for Session {
    fn plan(&mut self, plan: &mut SocketPlan) {
        if self.token.is_some() {
            plan.window_scale_for = Some(Settings::default().ceiling as u32);
        }
    }

    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        Some(Box::new(RightSizing::new(
            transfer,
            self.token?,
            self.server.budget.share(self.server.caps, self.client),
            SharedRecord::default(),
        )))
    }
}

impl SessionExtension for Session {
    fn features(&self) -> Vec<String> {
        vec![NAME.into()]
    }

    fn opts(&mut self, name: &str, arguments: &str) -> Option<Reply> {
        if !name.eq_ignore_ascii_case(NAME) {
            return None;
        }
        let off = arguments.eq_ignore_ascii_case("OFF");
        self.token = arguments.parse().ok();
        Some(match (self.token, off) {
            (Some(_), _) => Reply::new(200, "Data connections will be right-sized"),
            (None, true) => Reply::new(200, "Data connections will not be right-sized"),
            (None, false) => Reply::new(501, "OPTS DRS takes 32 hexadecimal digits, or OFF"),
        })
    }

    fn reset(&mut self) {
        self.token = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Box<dyn SessionExtension> {
        let address = "127.0.0.1:21".parse().unwrap();
        RightSizingServer::default().open(&PeerFacts {
            local: address,
            peer: address,
        })
    }

    #[test]
    fn a_client_arms_it_with_a_token_and_disarms_it() {
        let mut session = session();
        let mut code = |text: &str| session.opts("drs", text).unwrap().code;
        assert_eq!(code("00112233445566778899aabbccddeeff"), 200);
        assert_eq!(code("off"), 200);
        for wrong in ["", "on", "0011", "00112233445566778899aabbccddeeff 1"] {
            assert_eq!(code(wrong), 501, "{wrong}");
        }
        assert_eq!(session.opts("MLST", "size;"), None);
    }

    #[test]
    fn only_armed_sessions_prepare_windows_that_grow() {
        let mut session = session();
        let mut plan = SocketPlan::default();
        session.plan(&mut plan);
        assert_eq!(plan.window_scale_for, None);
        session.opts("DRS", "00112233445566778899aabbccddeeff");
        session.plan(&mut plan);
        assert_eq!(plan.window_scale_for, Some(33_554_432));
        session.reset();
        plan = SocketPlan::default();
        session.plan(&mut plan);
        assert_eq!(plan.window_scale_for, None);
    }
}
