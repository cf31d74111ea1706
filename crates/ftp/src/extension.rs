//! The part that extensions such as right-sizing have in transfers, the same at both ends. How they are
//! negotiated differs: the server answers, the client asks.

use fairwind_transfer::{SocketPlan, Transfer, TransferWatcher};

/// An extension's part in the transfers of one session. Neither of these methods may block.
pub trait TransferExtension: Send {
    /// Whether no file may be moved without it, so that small files do not share a data connection.
    fn is_for_every_file(&self) -> bool {
        true
    }

    /// Called before a data socket connects or listens; may change its `plan`.
    fn plan(&mut self, plan: &mut SocketPlan) {
        let _ = plan;
    }

    /// Called when the data connection of a file's transfer is open; the watcher is called in the transfer's
    /// thread.
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let _ = transfer;
        None
    }
}
