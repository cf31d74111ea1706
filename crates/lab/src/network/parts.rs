//! The parts of a network that no packet crosses.

use super::{Network, Routes};

impl Network {
    /// Divides the pipes into parts that no packet crosses, so that each can be emulated
    /// separately. All pipes that one host sends into are in the same part. Pipes that no packet
    /// takes are in the first.
    pub(crate) fn parts(&self, routes: &Routes) -> Vec<Vec<usize>> {
        let mut parts = Parts::new(self.pipes.len());
        let mut used = vec![false; self.pipes.len()];
        for (source, _) in self.hosts() {
            let mut first = None;
            for target in 0..self.hosts().count() {
                let mut node = source;
                let mut before = first;
                while let Some(pipe) = routes.next(node, target) {
                    used[pipe] = true;
                    if let Some(before) = before {
                        parts.join(before, pipe);
                    }
                    first = first.or(Some(pipe));
                    before = Some(pipe);
                    node = self.pipes[pipe].to;
                }
            }
        }
        for pipe in (0..used.len()).filter(|&pipe| !used[pipe]) {
            parts.join(0, pipe);
        }
        parts.members()
    }
}

/// Disjoint sets of pipes (union-find).
struct Parts {
    parent: Vec<usize>,
}

impl Parts {
    fn new(len: usize) -> Parts {
        Parts {
            parent: (0..len).collect(),
        }
    }

    fn root(&self, mut of: usize) -> usize {
        while self.parent[of] != of {
            of = self.parent[of];
        }
        of
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    fn members(&self) -> Vec<Vec<usize>> {
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); self.parent.len()];
        for pipe in 0..self.parent.len() {
            members[self.root(pipe)].push(pipe);
        }
        members.retain(|part| !part.is_empty());
        members
    }
}
