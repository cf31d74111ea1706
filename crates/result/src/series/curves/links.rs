//! The curves of the links.

use std::path::Path;

use super::{Drops, LinkCurves, columns};
use crate::LinkResult;
use crate::ResultError;
use crate::series::columns::LINK;
use crate::series::decimate::{Decimator, Point};
use crate::series::reader::scan;

/// Reads the curves of these links from `links.parquet`.
pub(super) fn read(
    path: &Path,
    links: &[LinkResult],
    duration_s: f64,
) -> Result<Vec<LinkCurves>, ResultError> {
    let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
    let columns = columns(links.len());
    let mut gathering: Vec<LinkGathering> = links
        .iter()
        .map(|_| LinkGathering::new(duration_s, columns))
        .collect();
    scan(path, LINK, &names, &["queue_packets", "drops"], |row| {
        if let &[Some(queue), Some(drops)] = row.values {
            gathering[row.name].push(row.time_s, queue as f64, drops);
        }
    })?;
    Ok(gathering
        .into_iter()
        .zip(links)
        .map(|(gathering, link)| gathering.finish(&link.name))
        .collect())
}

/// The curves of a link while its rows are read.
struct LinkGathering {
    columns_per_second: f64,
    queue: Decimator,
    queue_max: f64,
    dropped: i64,
    column: u64,
    longest: Option<Point>,
    packets: u64,
    drops: Vec<Drops>,
}

impl LinkGathering {
    fn new(duration_s: f64, columns: usize) -> LinkGathering {
        LinkGathering {
            columns_per_second: columns as f64 / duration_s.max(1e-9),
            queue: Decimator::new(duration_s, columns),
            queue_max: 0.0,
            dropped: 0,
            column: 0,
            longest: None,
            packets: 0,
            drops: Vec::new(),
        }
    }

    fn push(&mut self, time_s: f64, queue: f64, dropped: i64) {
        let column = (time_s * self.columns_per_second) as u64;
        if column != self.column {
            self.close_column();
            self.column = column;
        }
        if self.longest.is_none_or(|longest| queue > longest.value) {
            let value = queue;
            self.longest = Some(Point { time_s, value });
        }
        self.packets += u64::try_from(dropped - self.dropped).unwrap_or(0);
        self.dropped = dropped;
        self.queue.push(time_s, queue);
        self.queue_max = self.queue_max.max(queue);
    }

    fn close_column(&mut self) {
        if let Some(at) = self.longest.take()
            && self.packets > 0
        {
            let packets = self.packets;
            self.drops.push(Drops { at, packets });
        }
        self.packets = 0;
    }

    fn finish(mut self, name: &str) -> LinkCurves {
        self.close_column();
        LinkCurves {
            name: name.to_owned(),
            queue: self.queue.finish(),
            drops: self.drops,
            queue_max: self.queue_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn drops_stand_where_the_queue_was_longest() {
        let mut gathering = LinkGathering::new(10.0, 10);
        gathering.push(0.0, 5.0, 0);
        gathering.push(0.5, 50.0, 2);
        gathering.push(0.9, 40.0, 3);
        gathering.push(1.5, 10.0, 3);
        let curves = gathering.finish("bottleneck");
        let at = Point {
            time_s: 0.5,
            value: 50.0,
        };
        assert_eq!(curves.drops, [Drops { at, packets: 3 }]);
        assert_eq!(curves.queue_max, 50.0);
    }
}
