//! Shortest routes: which pipe a packet takes next on its way to a node.
//!
//! The best route has the fewest pipes; of those, the least delay; of those, the pipes that come first.

use crate::units::Duration;

/// A pipe between two nodes, which are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The node where it begins.
    pub from: usize,
    /// The node where it ends.
    pub to: usize,
    /// Its delay at the start of the run.
    pub delay: Duration,
}

/// Distance to a node: pipes, then delay.
type Distance = (usize, Duration);

/// For each of `nodes` nodes, the position of the first edge of its best route to `target`. `None` at the
/// target, and at nodes from which no route leads there.
pub fn toward(target: usize, nodes: usize, edges: &[Edge]) -> Vec<Option<usize>> {
    let distances = distances_to(target, nodes, edges);
    let mut next = vec![None; nodes];
    for (position, edge) in edges.iter().enumerate() {
        let through = through(edge, &distances);
        let is_best = through.is_some() && through == distances[edge.from];
        if is_best && next[edge.from].is_none() {
            next[edge.from] = Some(position);
        }
    }
    next
}

/// Bellman-Ford: networks are small, and delays may be 0.
fn distances_to(target: usize, nodes: usize, edges: &[Edge]) -> Vec<Option<Distance>> {
    let mut distances: Vec<Option<Distance>> = vec![None; nodes];
    distances[target] = Some((0, Duration::ZERO));
    loop {
        let mut changed = false;
        for edge in edges {
            let Some(distance) = through(edge, &distances) else {
                continue;
            };
            if distances[edge.from].is_none_or(|known| distance < known) {
                distances[edge.from] = Some(distance);
                changed = true;
            }
        }
        if !changed {
            return distances;
        }
    }
}

/// The distance of the node where `edge` begins, if its route leads through it.
fn through(edge: &Edge, distances: &[Option<Distance>]) -> Option<Distance> {
    let (pipes, delay) = distances[edge.to]?;
    Some((pipes + 1, delay + edge.delay))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: usize, to: usize, delay_ms: u64) -> Edge {
        Edge {
            from,
            to,
            delay: Duration::from_millis(delay_ms),
        }
    }

    #[test]
    fn fewer_pipes_go_before_less_delay() {
        let edges = [edge(0, 1, 1), edge(1, 2, 1), edge(0, 2, 500)];
        assert_eq!(toward(2, 3, &edges), [Some(2), Some(1), None]);
    }

    #[test]
    fn of_as_many_pipes_the_least_delay_wins_and_then_the_first() {
        let edges = [edge(0, 1, 9), edge(0, 1, 5), edge(0, 1, 5)];
        assert_eq!(toward(1, 2, &edges), [Some(1), None]);
    }

    #[test]
    fn pipes_without_delay_make_no_loop() {
        let ring = [edge(0, 1, 0), edge(1, 2, 0), edge(2, 0, 0), edge(2, 3, 0)];
        assert_eq!(toward(3, 4, &ring), [Some(0), Some(1), Some(3), None]);
    }

    #[test]
    fn from_where_no_pipe_leads_there_is_no_route() {
        assert_eq!(toward(0, 3, &[edge(0, 1, 0)]), [None, None, None]);
    }
}
