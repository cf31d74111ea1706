//! What the connections between two hosts share: `CC_SHARED` of `cc/include/fairwind/cc.h`.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;

use super::advised::AdvisedPath;
use super::parameters::Parameters;
use crate::advised::AdvisedStart;

/// Size of what a control may share, in words of 8 bytes: `CC_SHARED_SIZE`.
const SHARED_WORDS: usize = 16;

pub(super) type State = [Cell<u64>; SHARED_WORDS];

/// Two hosts: what the connections from one to the other share, for each control and its parameters.
#[derive(Debug, Default)]
pub struct Hosts {
    states: RefCell<Vec<(Parameters, Rc<State>)>>,
    advised: RefCell<Vec<(AdvisedStart, Rc<Cell<AdvisedStart>>)>>,
}

impl Hosts {
    /// What a connection is advised of the path between them: the same for all that are given the same.
    pub fn advised(&self, start: AdvisedStart) -> AdvisedPath {
        let mut advised = self.advised.borrow_mut();
        if let Some((_, shared)) = advised.iter().find(|(of, _)| *of == start) {
            return AdvisedPath::shared(shared);
        }
        let shared = Rc::new(Cell::new(start));
        advised.push((start, Rc::clone(&shared)));
        AdvisedPath::shared(&shared)
    }

    fn state(&self, parameters: &Parameters) -> Rc<State> {
        let mut states = self.states.borrow_mut();
        if let Some((_, state)) = states.iter().find(|(of, _)| of == parameters) {
            return Rc::clone(state);
        }
        let state = Rc::new(State::default());
        states.push((parameters.clone(), Rc::clone(&state)));
        state
    }
}

/// Keeps alive what a connection shares.
#[derive(Debug, Default)]
struct Owner {
    hosts: Rc<Hosts>,
    state: Option<Rc<State>>,
}

/// A connection's part in what is shared. By default it is alone between its hosts.
#[repr(C)]
#[derive(Debug)]
pub struct SharedState {
    /// What the owner's state is, for the control.
    pointer: *mut u64,
    owner: Box<Owner>,
}

impl SharedState {
    /// Of a connection between these hosts.
    pub fn between(hosts: &Rc<Hosts>) -> SharedState {
        SharedState::of(Owner {
            hosts: Rc::clone(hosts),
            state: None,
        })
    }

    fn of(owner: Owner) -> SharedState {
        SharedState {
            pointer: owner.pointer(),
            owner: Box::new(owner),
        }
    }

    /// Shares with the connections of the same control with the same parameters.
    pub(super) fn choose(&mut self, parameters: &Parameters) {
        self.owner.state = Some(self.owner.hosts.state(parameters));
        self.pointer = self.owner.pointer();
    }

    fn words(&self) -> [u64; SHARED_WORDS] {
        let words = self.owner.state.as_deref();
        words.map_or([0; SHARED_WORDS], |words| words.each_ref().map(Cell::get))
    }
}

impl Owner {
    fn pointer(&self) -> *mut u64 {
        let state = self.state.as_ref();
        state.map_or(ptr::null_mut(), |state| Rc::as_ptr(state).cast_mut().cast())
    }
}

impl Default for SharedState {
    fn default() -> SharedState {
        SharedState::of(Owner::default())
    }
}

/// The copy has the same state, but is alone with it.
impl Clone for SharedState {
    fn clone(&self) -> SharedState {
        let state = self.owner.state.as_deref().cloned();
        SharedState::of(Owner {
            hosts: Rc::default(),
            state: state.map(Rc::new),
        })
    }
}

/// Whether the same is shared.
impl PartialEq for SharedState {
    fn eq(&self, other: &SharedState) -> bool {
        self.words() == other.words()
    }
}

impl Eq for SharedState {}
