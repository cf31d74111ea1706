//! Keeps what was learned from the histories in memory up to date.

use std::sync::Arc;
use std::time::Duration;

use fairwind_advice::History;
use jiff::{SignedDuration, Timestamp};

use super::directory::KnownPath;
use super::{Service, Shared};
use crate::error::ServiceError;
use crate::store::PathId;

/// This many samples are learned in a millisecond or two, so an answer can wait for it.
pub(super) const LEARNED_INLINE_AT_MOST: usize = 1_000;
/// Lead time, in real time, with which the data for a new day is learned.
const LEARNS_AHEAD: Duration = Duration::from_secs(600);
/// The same on a clock that runs faster: at most this much of its time.
const LEARNS_AHEAD_AT_MOST: SignedDuration = SignedDuration::from_hours(12);

/// A history to be learned.
struct Lesson {
    /// The path as declared at present.
    path: Arc<KnownPath>,
    history: Arc<History>,
    /// Which call outdated the history, if the store has another one.
    outdated: Option<u64>,
    now: Timestamp,
    /// Data for a day that begins before this time is learned as well.
    soon: Timestamp,
}

impl Service {
    /// Reads and learns the histories of all paths, one after the other, as far as memory permits, so that
    /// the first requests find them.
    pub async fn warm(&self) {
        for path in self.directory().paths() {
            if !self.shared.histories.has_room() {
                return;
            }
            self.shared.know(path.stored.id).await;
        }
    }

    /// Learns the histories in memory that need it now or soon, one after the other. With a history of the
    /// last days, each path needs it once a day, shortly before the day begins.
    pub async fn keep_learned(&self) {
        for path in self.directory().paths() {
            self.shared.learn(path.stored.id).await;
        }
    }
}

impl Shared {
    /// Reads a path's history, if memory permits, and learns it.
    pub(super) async fn know(&self, id: PathId) {
        let Some(path) = self.directory().numbered(id).cloned() else {
            return;
        };
        let is_here = self.histories.peek(id).is_some();
        if !is_here && !self.histories.has_room() {
            return;
        }
        match self.history(&path).await {
            Ok(_) => self.learn(id).await,
            Err(error) => tracing::warn!("path {}: {error}", path.config().name),
        }
    }

    /// Learns the history of a path, if it is in memory and needs it, on a copy or on what the store has if
    /// that is different. No request waits for it.
    pub(super) async fn learn(&self, id: PathId) {
        if self.lesson(id).is_none() {
            return;
        }
        // One at a time, because requests need the processors too.
        let _alone = self.learning.lock().await;
        // In the meantime the path may have been declared again, or learned.
        let Some(lesson) = self.lesson(id) else {
            return;
        };
        let (path, outdated) = (lesson.path, lesson.outdated);
        let mut copy = match outdated {
            None => History::clone(&lesson.history),
            Some(_) => match self.read_again(&path, &lesson.history).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::warn!("path {}: {error}", path.config().name);
                    return;
                }
            },
        };
        drop(lesson.history);
        let settings = path.settings.clone();
        let learning = tokio::task::spawn_blocking(move || {
            for hop in &mut copy.hops {
                hop.learn_ahead(lesson.now, lesson.soon, &settings);
            }
            copy
        });
        match (learning.await, outdated) {
            (Ok(learned), Some(outdated)) => self.histories.replace(id, outdated, learned),
            (Ok(learned), None) => self.histories.adopt(id, learned),
            (Err(error), _) => tracing::error!("path {}: {error}", path.config().name),
        }
    }

    /// What is to be learned of the path now; `None` if its history is not in memory or already learned.
    fn lesson(&self, id: PathId) -> Option<Lesson> {
        // Read before the path: a newly declared path is in the directory before its history is outdated.
        let outdated = self.histories.outdated(id);
        let path = Arc::clone(self.directory().numbered(id)?);
        let history = self.histories.peek(id)?;
        let now = self.clock.now();
        let soon = self.soon(now);
        let needs_it = history.hops.iter().any(|hop| {
            let is_learned = |time| hop.is_learned(time, &path.settings);
            !is_learned(now) || !is_learned(soon)
        });
        (outdated.is_some() || needs_it).then_some(Lesson {
            path,
            history,
            outdated,
            now,
            soon,
        })
    }

    /// Reads the path's history from the store. Hops that only have additional newer samples need not be
    /// learned again.
    async fn read_again(
        &self,
        path: &KnownPath,
        before: &History,
    ) -> Result<History, ServiceError> {
        let mut read = self.read_history(path).await?;
        for hop in &mut read.hops {
            if let Some(known) = before.hops.iter().find(|known| known.name == hop.name) {
                hop.adopt(known.clone());
            }
        }
        Ok(read)
    }

    fn soon(&self, now: Timestamp) -> Timestamp {
        let at_most = now.checked_add(LEARNS_AHEAD_AT_MOST);
        self.clock
            .after(LEARNS_AHEAD)
            .min(at_most.unwrap_or(Timestamp::MAX))
    }
}

#[cfg(test)]
mod tests {
    use fairwind_advice::wire::Answer;
    use fairwind_advice::{Curve, HistorySet, Request};
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::clock::Clock;
    use crate::path::PathConfig;
    use crate::service::Interface;
    use crate::service::NewSample;
    use crate::store::Store;

    /// A service with eight days of samples for the path of 192.0.2.7, too many to be learned at once.
    /// A service with a path without samples, of which there is nothing to learn.
    async fn service(place: &tempfile::TempDir, now: &str, history: HistorySet) -> Service {
        let store = Store::open(&place.path().join("db")).await.unwrap();
        let now: Timestamp = now.parse().unwrap();
        let clock = Clock::new(Some(now), 1.0);
        let store: Arc<Store> = Arc::new(store);
        let service = Service::start(store, clock, 1 << 20).await.unwrap();
        let mut config = PathConfig::new("p", vec!["192.0.2.7".parse().unwrap()]);
        config.history = history;
        config.threshold_mbps = Some(42.0);
        service.put_path(config).await.unwrap();
        service
    }

    /// Adds samples of eight days. Learning begins at once, unless the caller holds `learning`.
    async fn fill(service: &Service) {
        let (now, path) = (service.now(), service.path("p").unwrap());
        let samples = Curve::default().samples(now - SignedDuration::from_hours(24 * 8), now);
        let answer = service.fill(&path, "path", samples).await.unwrap();
        assert_eq!(answer.accepted, 8 * 288);
    }

    async fn ask(service: &Service) -> Answer {
        let request = Request::default();
        let answer = service.advice("192.0.2.7", &request, Interface::Rest).await;
        answer.unwrap()
    }

    #[tokio::test]
    async fn the_linear_model_answers_until_a_long_history_is_learned() {
        let place = tempfile::tempdir().unwrap();
        let service = service(&place, "2026-03-02T14:00:00Z", HistorySet::All).await;
        let learning = service.shared.learning.lock().await;
        fill(&service).await;
        let first = ask(&service).await;
        assert_eq!(first.advice.model, "linear");
        assert_eq!(first.advice.days_used, 8);
        // The shortest interval, although the forecast is valid for longer.
        assert!(first.ask_again_after_s <= 60.0, "{first:?}");
        assert!(
            first.advice.reason.ends_with("; profile is being learned"),
            "{}",
            first.advice.reason
        );
        drop(learning);
        service.keep_learned().await;
        let second = ask(&service).await;
        assert_eq!(second.advice.model, "profile");
        assert!(second.advice.interval_mbps.is_some());
        assert!(
            !second.advice.reason.contains("being learned"),
            "{}",
            second.advice.reason
        );
    }

    #[tokio::test]
    async fn a_new_sample_is_part_of_the_next_answer_also_while_the_history_is_being_learned() {
        let place = tempfile::tempdir().unwrap();
        let service = service(&place, "2026-03-02T14:00:00Z", HistorySet::All).await;
        let learning = service.shared.learning.lock().await;
        fill(&service).await;
        let path = service.path("p").unwrap();
        for available_mbps in [12.3, 14.5] {
            let sample = NewSample {
                hop: None,
                time: service.now(),
                available_mbps,
                rtt_ms: None,
                source: None,
            };
            service.record(&path, &[sample]).await.unwrap();
            let answer = ask(&service).await;
            assert_eq!(answer.advice.model, "linear");
            let expected = format!("has {available_mbps} Mbit/s available");
            assert!(
                answer.advice.reason.contains(&expected),
                "{}",
                answer.advice.reason
            );
        }
        drop(learning);
        service.keep_learned().await;
        let answer = ask(&service).await;
        assert_eq!(answer.advice.model, "profile");
        assert!(
            answer.advice.reason.contains("has 14.5 "),
            "{}",
            answer.advice.reason
        );
    }

    #[tokio::test]
    async fn a_path_that_is_declared_twice_while_another_is_learned_rests_on_its_last_hops() {
        let place = tempfile::tempdir().unwrap();
        let service = service(&place, "2026-03-02T14:00:00Z", HistorySet::All).await;
        let learning = service.shared.learning.lock().await;
        fill(&service).await;
        assert_eq!(ask(&service).await.advice.model, "linear");
        let mut declaring = Vec::new();
        for hop in ["a", "b"] {
            let mut config = PathConfig::new("p", vec!["192.0.2.7".parse().unwrap()]);
            config.hops = vec![hop.to_owned()];
            let service = service.clone();
            let declared = service.clone();
            declaring.push(tokio::spawn(async move { declared.put_path(config).await }));
            while service.path("p").unwrap().config().hops != [hop] {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        drop(learning);
        for declared in declaring {
            assert!(!declared.await.unwrap().unwrap());
        }
        let id = service.path("p").unwrap().stored.id;
        let history = service.shared.histories.peek(id).unwrap();
        let hops: Vec<&str> = history.hops.iter().map(|hop| hop.name.as_str()).collect();
        assert_eq!(hops, ["b"]);
    }

    #[tokio::test]
    async fn what_a_new_day_needs_is_learned_before_it_begins() {
        for (now, ahead) in [
            ("2026-03-02T23:49:00Z", false),
            ("2026-03-02T23:51:00Z", true),
        ] {
            let place = tempfile::tempdir().unwrap();
            let service = service(&place, now, HistorySet::LastDays(7)).await;
            let learning = service.shared.learning.lock().await;
            fill(&service).await;
            assert_eq!(ask(&service).await.advice.model, "linear");
            drop(learning);
            service.keep_learned().await;
            assert_eq!(ask(&service).await.advice.model, "profile");
            let path = service.path("p").unwrap();
            let history = service.shared.histories.peek(path.stored.id).unwrap();
            let midnight: Timestamp = "2026-03-03T00:00:00Z".parse().unwrap();
            let learned = history.hops[0].is_learned(midnight, &path.settings);
            assert_eq!(learned, ahead, "{now}");
        }
    }
}
