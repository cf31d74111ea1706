//! Advice for a host.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_advice::wire::Answer;
use fairwind_advice::{Advice, History, ModelKind, Request, Settings, advise};
use fairwind_origin::Prefix;
use jiff::{SignedDuration, Timestamp};

use super::Service;
use super::directory::KnownPath;
use super::metrics::Interface;
use crate::error::ServiceError;
use crate::host;

/// Timeout for resolving a name.
const RESOLVES_WITHIN: Duration = Duration::from_millis(500);

impl Service {
    /// The path that leads to a host, an address or a name. Names that are not declared are resolved.
    pub async fn route(&self, host: &str) -> Result<Option<Arc<KnownPath>>, ServiceError> {
        Ok(self.find(host).await?.map(|(path, _)| path))
    }

    /// The same, and the destinations around the host that have that path, if it is an address.
    async fn find(
        &self,
        host: &str,
    ) -> Result<Option<(Arc<KnownPath>, Option<Prefix>)>, ServiceError> {
        let directory = self.directory();
        if let Some(path) = directory.route(host) {
            return Ok(Some((Arc::clone(path), directory.prefix(host))));
        }
        if host::address(host).is_some() || directory.is_empty() {
            return Ok(None);
        }
        let Some(name) = host::name(host) else {
            let wrong = format!("host: {host:?} is neither an address nor a name");
            return Err(ServiceError::Invalid(wrong));
        };
        let path = addresses(&name).await.into_iter().find_map(|address| {
            let path = directory.route(&address.to_string());
            path.cloned()
        });
        Ok(path.map(|path| (path, None)))
    }

    /// Advice for a transfer to or from a host. Without a path it is the kernel's defaults.
    pub async fn advice(
        &self,
        host: &str,
        request: &Request,
        interface: Interface,
    ) -> Result<Answer, ServiceError> {
        let begin = Instant::now();
        let answer = match self.find(host).await? {
            Some((path, prefix)) => match self.advice_for(&path, prefix, request).await {
                // The path was removed in the meantime.
                Err(ServiceError::NoPath(_)) => self.without_path(host, request),
                answer => answer?,
            },
            None => self.without_path(host, request),
        };
        let mode = answer.advice.mode.name();
        self.metrics()
            .count_advice(interface, mode, begin.elapsed().as_secs_f64());
        Ok(answer)
    }

    async fn advice_for(
        &self,
        path: &KnownPath,
        prefix: Option<Prefix>,
        request: &Request,
    ) -> Result<Answer, ServiceError> {
        let history = self.history(path).await?;
        let now = self.now();
        let advice = match is_learned(&history, now, &path.settings) {
            true => advise(&history, request, now, &path.settings),
            false => {
                self.to_learn.ask(path.stored.id);
                meanwhile(&history, request, now, &path.settings)
            }
        };
        let name = path.config().name.clone();
        Ok(Answer {
            prefix,
            ..self.answer(advice, Some(name))
        })
    }

    fn without_path(&self, host: &str, request: &Request) -> Answer {
        let settings = Settings::default();
        let mut advice = advise(&History::default(), request, self.now(), &settings);
        advice.reason = format!("congestion control: no path leads to {host}");
        self.answer(advice, None)
    }

    fn answer(&self, advice: Advice, path: Option<String>) -> Answer {
        let wait = advice.next_advice.duration_since(self.now());
        Answer {
            advice,
            path,
            ask_again_after_s: self.clock().real(wait).as_secs_f64(),
            prefix: None,
        }
    }
}

fn is_learned(history: &History, now: Timestamp, settings: &Settings) -> bool {
    let mut hops = history.hops.iter();
    hops.all(|hop| hop.is_learned(now, settings))
}

/// Advice while the model is still being learned: from what it learned for the path's previous declaration (a
/// different time zone or set of days), or from the linear model, which needs no learning. Clients are told
/// to ask again after the shortest interval at the latest.
fn meanwhile(history: &History, request: &Request, now: Timestamp, settings: &Settings) -> Advice {
    let before = history
        .hops
        .iter()
        .find_map(|hop| hop.learned_for(settings));
    let before = before.filter(|before| is_learned(history, now, before));
    let linear = || Settings {
        model: ModelKind::Linear,
        ..settings.clone()
    };
    let mut advice = advise(history, request, now, &before.unwrap_or_else(linear));
    let soon = SignedDuration::try_from(settings.shortest_interval).unwrap_or(SignedDuration::ZERO);
    let soon = now.checked_add(soon).unwrap_or(Timestamp::MAX);
    advice.next_advice = advice.next_advice.min(soon);
    advice.reason += &format!("; {} is being learned", settings.model.name());
    advice
}

/// The addresses of a name; empty if it has none or they cannot be resolved in time.
pub(crate) async fn addresses(name: &str) -> Vec<IpAddr> {
    let lookup = tokio::net::lookup_host((name, 0));
    match tokio::time::timeout(RESOLVES_WITHIN, lookup).await {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        _ => Vec::new(),
    }
}
