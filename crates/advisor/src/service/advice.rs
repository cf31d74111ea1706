//! Advice for a host.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_advice::{Advice, History, Mode, ModelKind, Request, Settings, advise};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Service;
use crate::directory::KnownPath;
use crate::error::ServiceError;
use crate::host;
use crate::metrics::Interface;

/// Timeout for resolving a name.
const RESOLVES_WITHIN: Duration = Duration::from_millis(500);

/// What a transfer should do now, and when to ask again. A field that is missing or null leaves the
/// kernel's default in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdviceAnswer {
    /// `congestion-control` or `no-congestion-control`.
    #[schema(example = "congestion-control")]
    pub mode: String,
    /// Name of the congestion control; null: the kernel's default.
    pub congestion_control: Option<String>,
    /// Available bandwidth now, Mbit/s, of the hop that has the least.
    pub available_mbps: Option<f64>,
    /// 80 % interval of the available bandwidth, Mbit/s; only of the profile model.
    pub interval_mbps: Option<[f64; 2]>,
    /// Smoothed round-trip time, milliseconds.
    pub rtt_ms: Option<f64>,
    /// Send buffer: round-trip time times `capacity_mbps`; without that key, twice the product with the
    /// available bandwidth. At most the bytes that remain, and within `buffers`.
    pub send_buffer_bytes: Option<u64>,
    /// Receive buffer, computed in the same way.
    pub receive_buffer_bytes: Option<u64>,
    /// Pacing rate, Mbit/s: `pace_at` times the available bandwidth; only without congestion control.
    pub pacing_mbps: Option<f64>,
    /// The path's threshold, Mbit/s.
    pub threshold_mbps: Option<f64>,
    /// The moment of the next advice on the service's clock.
    #[schema(value_type = String, format = DateTime)]
    pub next_advice: Timestamp,
    /// Model that forecast: `linear` or `profile`; `linear` also while the profile is being learned.
    pub model: String,
    /// Number of earlier days that the forecast uses.
    pub days_used: u32,
    /// Mean goodness of fit of the linear model's lines.
    pub r_squared: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
    /// Name of the path; null if the host has none.
    pub path: Option<String>,
    /// Seconds of real time until the next advice. Clients wait for this time, not until `next_advice`,
    /// because the service's clock may run faster than theirs.
    pub ask_again_after_s: f64,
}

impl AdviceAnswer {
    fn new(advice: Advice, path: Option<String>, ask_again_after: Duration) -> AdviceAnswer {
        AdviceAnswer {
            mode: mode_name(advice.mode).to_owned(),
            congestion_control: advice.congestion_control,
            available_mbps: advice.available_mbps,
            interval_mbps: advice.interval_mbps,
            rtt_ms: advice.rtt_ms,
            send_buffer_bytes: advice.send_buffer_bytes,
            receive_buffer_bytes: advice.receive_buffer_bytes,
            pacing_mbps: advice.pacing_mbps,
            threshold_mbps: advice.threshold_mbps,
            next_advice: advice.next_advice,
            model: advice.model,
            days_used: advice.days_used,
            r_squared: advice.r_squared,
            reason: advice.reason,
            path,
            ask_again_after_s: ask_again_after.as_secs_f64(),
        }
    }

    /// Whether the advice is to use congestion control.
    pub fn congestion_control_is_on(&self) -> bool {
        self.mode == mode_name(Mode::CongestionControl)
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::CongestionControl => "congestion-control",
        Mode::NoCongestionControl => "no-congestion-control",
    }
}

impl Service {
    /// The path that leads to a host, an address or a name. Names that are not declared are resolved.
    pub async fn route(&self, host: &str) -> Result<Option<Arc<KnownPath>>, ServiceError> {
        let directory = self.directory();
        if let Some(path) = directory.route(host) {
            return Ok(Some(Arc::clone(path)));
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
        Ok(path)
    }

    /// Advice for a transfer to or from a host. Without a path it is the kernel's defaults.
    pub async fn advice(
        &self,
        host: &str,
        request: &Request,
        interface: Interface,
    ) -> Result<AdviceAnswer, ServiceError> {
        let begin = Instant::now();
        let answer = match self.route(host).await? {
            Some(path) => match self.advice_for(&path, request).await {
                // The path was removed in the meantime.
                Err(ServiceError::NoPath(_)) => self.without_path(host, request),
                answer => answer?,
            },
            None => self.without_path(host, request),
        };
        let mode = match answer.congestion_control_is_on() {
            true => mode_name(Mode::CongestionControl),
            false => mode_name(Mode::NoCongestionControl),
        };
        self.metrics()
            .count_advice(interface, mode, begin.elapsed().as_secs_f64());
        Ok(answer)
    }

    async fn advice_for(
        &self,
        path: &KnownPath,
        request: &Request,
    ) -> Result<AdviceAnswer, ServiceError> {
        let history = self.history(path).await?;
        let now = self.now();
        let advice = match is_learned(&history, now, &path.settings) {
            true => advise(&history, request, now, &path.settings),
            false => {
                self.teacher.ask(path.stored.id);
                meanwhile(&history, request, now, &path.settings)
            }
        };
        Ok(self.answer(advice, Some(path.config().name.clone())))
    }

    fn without_path(&self, host: &str, request: &Request) -> AdviceAnswer {
        let settings = Settings::default();
        let mut advice = advise(&History::default(), request, self.now(), &settings);
        advice.reason = format!("congestion control: no path leads to {host}");
        self.answer(advice, None)
    }

    fn answer(&self, advice: Advice, path: Option<String>) -> AdviceAnswer {
        let wait = advice.next_advice.duration_since(self.now());
        let real = self.clock().real(wait);
        AdviceAnswer::new(advice, path, real)
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
