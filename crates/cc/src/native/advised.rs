//! What connections are advised of their path: `CC_ADVISED_STARTS` of `cc/include/fairwind/cc.h`.

use std::cell::Cell;
use std::ptr;
use std::rc::Rc;

use crate::advised::AdvisedStart;

/// A connection's part in what is advised of its path. By default nothing is.
#[repr(C)]
#[derive(Debug)]
pub struct AdvisedPath {
    /// What the owner holds, for the control.
    pointer: *mut AdvisedStart,
    owner: Option<Rc<Cell<AdvisedStart>>>,
}

impl AdvisedPath {
    /// Advice that others have, too: the first of them that uses it has it for itself.
    pub fn shared(start: &Rc<Cell<AdvisedStart>>) -> AdvisedPath {
        AdvisedPath {
            pointer: Rc::as_ptr(start).cast_mut().cast(),
            owner: Some(Rc::clone(start)),
        }
    }

    /// Advice for one connection.
    pub fn alone(start: AdvisedStart) -> AdvisedPath {
        AdvisedPath::shared(&Rc::new(Cell::new(start)))
    }

    /// What is advised now.
    pub fn get(&self) -> Option<AdvisedStart> {
        self.owner.as_deref().map(Cell::get)
    }
}

impl Default for AdvisedPath {
    fn default() -> AdvisedPath {
        AdvisedPath {
            pointer: ptr::null_mut(),
            owner: None,
        }
    }
}

/// The copy has the same advice, but is alone with it.
impl Clone for AdvisedPath {
    fn clone(&self) -> AdvisedPath {
        self.get().map(AdvisedPath::alone).unwrap_or_default()
    }
}

/// Whether the same is advised.
impl PartialEq for AdvisedPath {
    fn eq(&self, other: &AdvisedPath) -> bool {
        self.get() == other.get()
    }
}

impl Eq for AdvisedPath {}
