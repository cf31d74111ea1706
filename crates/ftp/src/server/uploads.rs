//! Running uploads, so that a user who comes back after a network failure can go on: the session that was
//! lost still has the file, and does not know yet that its peer has gone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fairwind_transfer::Meter;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::protocol::VirtualPath;

/// An upload that has received nothing for this time can be taken over. A client that has given one up
/// and logged in again has waited for longer.
const QUIET: Duration = Duration::from_secs(1);

/// Time allowed for an upload to end once it has been asked to.
const END_TIMEOUT: Duration = Duration::from_secs(5);

type Running = Mutex<HashMap<Key, Upload>>;

/// Who uploads what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Who can go on with the upload.
    pub owner: String,
    /// Device and inode of the user's root: a system user's is another one at each host.
    pub root: (u64, u64),
    /// The file, as the user names it.
    pub path: VirtualPath,
}

/// The running uploads of all users.
#[derive(Debug, Default)]
pub(super) struct Uploads(Arc<Running>);

#[derive(Debug)]
struct Upload {
    meter: Arc<Meter>,
    over: watch::Receiver<()>,
}

/// Marks an upload as running; dropped once the file is free again.
#[derive(Debug)]
pub(super) struct Entry {
    running: Arc<Running>,
    key: Key,
    meter: Arc<Meter>,
    _over: watch::Sender<()>,
}

impl Uploads {
    /// Marks an upload as running.
    pub(super) fn enter(&self, key: Key, meter: &Arc<Meter>) -> Entry {
        let (sender, over) = watch::channel(());
        let upload = Upload {
            meter: Arc::clone(meter),
            over,
        };
        self.0.lock().insert(key.clone(), upload);
        Entry {
            running: Arc::clone(&self.0),
            key,
            meter: Arc::clone(meter),
            _over: sender,
        }
    }

    /// Ends the same user's upload of the same file if nothing arrives there any more; false if there is
    /// none, or it is alive.
    pub(super) async fn take_over(&self, key: &Key) -> bool {
        let Some((meter, mut over)) = self
            .0
            .lock()
            .get(key)
            .map(|upload| (Arc::clone(&upload.meter), upload.over.clone()))
        else {
            return false;
        };
        let seen = meter.moved();
        tokio::time::sleep(QUIET.saturating_sub(meter.quiet())).await;
        if meter.moved() != seen {
            return false;
        }
        meter.stop();
        // It has ended once its entry has been dropped.
        timeout(END_TIMEOUT, over.changed()).await.is_ok()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        if running
            .get(&self.key)
            .is_some_and(|upload| Arc::ptr_eq(&upload.meter, &self.meter))
        {
            running.remove(&self.key);
        }
    }
}
