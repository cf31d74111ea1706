//! The advice to a transfer, and when to ask again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::calendar::{plus, signed};
use crate::forecast::{Forecast, NoForecast};
use crate::history::{History, Hop};
use crate::mode::Mode;
use crate::sample::Sample;
use crate::settings::{ModeRule, Settings};
use crate::watch::Watched;

/// Slowest rate that is advised, Mbit/s: whoever paces at less stands still.
const SLOWEST_MBPS: f64 = 0.1;
/// Margin beyond `stale_after` that ensures that a request finds the test stale.
const STALE_BY: Duration = Duration::from_secs(1);

/// The client's description of its transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The bytes that remain to be transferred, if known.
    pub remaining_bytes: Option<u64>,
}

/// What a transfer should do now. A field that is missing or null leaves the kernel's default in place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Advice {
    /// How the transfer shares the path.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schema(value_type = crate::mode::Written))]
    pub mode: Mode,
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
    /// Pacing rate, Mbit/s: in the mode `rate` the low edge of the interval, of the hop where it is lowest;
    /// without congestion control `pace_at` times the available bandwidth; otherwise none.
    pub pacing_mbps: Option<f64>,
    /// The path's threshold, Mbit/s.
    pub threshold_mbps: Option<f64>,
    /// The moment of the next advice on the service's clock.
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub next_advice: Timestamp,
    /// Model that forecast: `linear` or `profile`; `linear` also while the profile is being learned.
    pub model: String,
    /// Number of earlier days that the forecast uses.
    pub days_used: u32,
    /// Mean goodness of fit of the linear model's lines.
    pub r_squared: Option<f64>,
    /// Why, in a sentence.
    pub reason: String,
}

/// The advice at `now` for a transfer over the path of `history`. It cannot fail: unknown values are
/// left to the kernel, and without recent tests the advice is congestion control.
///
/// The hop with the least forecast decides the available bandwidth and the next advice time;
/// congestion control is on if the newest test is older than [`Settings::stale_after`] or any hop is
/// congested (thesis, section 3.3.1). The thesis' hops are all declared; [`Role`](crate::Role) describes
/// the others and when they count. Unlike in the thesis, without congestion control the next advice is
/// due no later than the newest tests go stale, and at the earliest time allowed if a forecast gives no
/// bound on its error: otherwise congestion control could stay off on the strength of outdated tests
/// or of an uncertain forecast. The same holds for the mode `rate`.
pub fn advise(history: &History, request: &Request, now: Timestamp, settings: &Settings) -> Advice {
    let watched = Watched::at(history, now, settings);
    let forecasts = forecasts(&watched.deciding, now, settings);
    let least = least_of(&forecasts);
    let forecast = least.as_ref().ok().map(|(_, forecast)| forecast);
    let Decision {
        mode,
        pacing_mbps,
        why,
    } = match settings.mode_rule {
        ModeRule::Thesis => congestion(&watched.deciding, forecast, now, settings),
        ModeRule::Background => background("the path's transfers take only what others leave"),
        ModeRule::Rate => rate(&forecasts, now, settings),
    };
    let change = forecast.map_or(settings.longest_interval, |f| f.next_change_after);
    let wait = match mode {
        Mode::CongestionControl | Mode::Background => change,
        Mode::NoCongestionControl | Mode::Rate => change
            .min(known_for(&forecasts, now, settings))
            .max(settings.shortest_interval),
    };
    let buffer = buffer_bytes(history, request, forecast, settings);
    Advice {
        mode,
        congestion_control: match mode {
            Mode::CongestionControl | Mode::Rate => settings.controls.on.clone(),
            Mode::NoCongestionControl => Some(settings.controls.off.clone()),
            Mode::Background => Some(settings.controls.background.clone()),
        },
        available_mbps: forecast.map(|f| f.available_mbps),
        interval_mbps: forecast.and_then(|f| f.interval_mbps).map(|(l, h)| [l, h]),
        rtt_ms: history.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        send_buffer_bytes: buffer,
        receive_buffer_bytes: buffer,
        pacing_mbps,
        threshold_mbps: settings.threshold_mbps,
        next_advice: plus(now, signed(wait)),
        model: settings.model.name().to_owned(),
        days_used: forecast.map_or(0, |f| f.days_used),
        r_squared: forecast.and_then(|f| f.r_squared),
        reason: why + &forecast_in_words(&least, settings) + &without(&watched.silent),
    }
}

/// A mode, its pacing, and why.
struct Decision {
    mode: Mode,
    pacing_mbps: Option<f64>,
    why: String,
}

/// The thesis' mode, from the newest test of each hop.
fn congestion(
    hops: &[&Hop],
    forecast: Option<&Forecast>,
    now: Timestamp,
    settings: &Settings,
) -> Decision {
    let on = |why: &str| Decision {
        mode: Mode::CongestionControl,
        pacing_mbps: None,
        why: format!("congestion control: {why}"),
    };
    let Some(threshold) = settings.threshold_mbps else {
        return on("the path has no threshold");
    };
    if hops.is_empty() {
        return on("no hop is watched");
    }
    for &hop in hops {
        let available = match recent(hop, now, settings) {
            Ok(newest) => newest.available_mbps,
            Err(why) => return on(&why),
        };
        if available < threshold {
            return on(&format!(
                "{} has {available:.1} Mbit/s available, below the threshold of {threshold:.1}",
                name(hop)
            ));
        }
    }
    if !settings.own_path {
        return on("no hop is congested, but the path is not declared as own");
    }
    Decision {
        mode: Mode::NoCongestionControl,
        pacing_mbps: settings
            .pace_at
            .zip(forecast)
            .map(|(multiple, forecast)| multiple * forecast.available_mbps),
        why: format!(
            "no congestion control: every hop has at least the threshold of {threshold:.1} Mbit/s available"
        ),
    }
}

fn background(why: &str) -> Decision {
    Decision {
        mode: Mode::Background,
        pacing_mbps: None,
        why: format!("background: {why}"),
    }
}

/// The mode `rate`, if every hop has a recent test and an interval that leaves a rate to pace at.
fn rate(forecasts: &Forecasts<'_>, now: Timestamp, settings: &Settings) -> Decision {
    let mut lowest: Option<(f64, &Hop)> = None;
    for (hop, forecast) in forecasts {
        if let Err(why) = recent(hop, now, settings) {
            return background(&why);
        }
        let interval = forecast.as_ref().ok().and_then(|f| f.interval_mbps);
        let Some((low, _)) = interval else {
            let why = format!("the forecast of {} has no interval", name(hop));
            return background(&why);
        };
        if lowest.is_none_or(|(lowest, _)| low < lowest) {
            lowest = Some((low, hop));
        }
    }
    match lowest {
        None => background("no hop is watched"),
        Some((low, hop)) if low < SLOWEST_MBPS => background(&format!(
            "{} may have less than {SLOWEST_MBPS} Mbit/s available, too little to pace at",
            name(hop)
        )),
        Some((low, hop)) => Decision {
            mode: Mode::Rate,
            pacing_mbps: Some(low),
            why: format!(
                "rate: in nine of ten cases {} has at least {low:.1} Mbit/s available",
                name(hop)
            ),
        },
    }
}

/// The newest test of a hop; the error says why none can be relied on.
fn recent(hop: &Hop, now: Timestamp, settings: &Settings) -> Result<Sample, String> {
    let name = name(hop);
    let Some(newest) = hop.samples().until(now).last() else {
        return Err(format!("{name} has not been tested"));
    };
    let age = now.duration_since(newest.time);
    if age > signed(settings.stale_after) {
        return Err(format!(
            "the newest test of {name} is {} s old, the limit is {} s",
            age.as_secs(),
            settings.stale_after.as_secs()
        ));
    }
    Ok(newest)
}

/// Each hop with its forecast, or why it has none.
type Forecasts<'a> = Vec<(&'a Hop, Result<Forecast, NoForecast>)>;

fn forecasts<'a>(hops: &[&'a Hop], now: Timestamp, settings: &Settings) -> Forecasts<'a> {
    let of = |&hop: &&'a Hop| (hop, hop.forecast(now, Duration::ZERO, settings));
    hops.iter().map(of).collect()
}

/// The hop with the least forecast, or why no hop has a forecast.
fn least_of<'a>(forecasts: &Forecasts<'a>) -> Result<(&'a Hop, Forecast), NoForecast> {
    let mut least: Result<(&Hop, Forecast), NoForecast> = Err(NoForecast::NoSamples);
    for (hop, forecast) in forecasts {
        match (*forecast, &least) {
            (Ok(forecast), Ok((_, best))) if forecast.available_mbps >= best.available_mbps => {}
            (Ok(forecast), _) => least = Ok((hop, forecast)),
            (Err(why), Err(NoForecast::NoSamples)) => least = Err(why),
            (Err(_), _) => {}
        }
    }
    least
}

/// How long the newest tests can be relied on: until the first of them is stale, and not at all if the
/// forecast of a hop does not bound how far its bandwidth may move.
fn known_for(forecasts: &Forecasts<'_>, now: Timestamp, settings: &Settings) -> Duration {
    let bounds_change =
        |f: &Forecast| f.interval_mbps.is_some() || f.slope_bound_mbps_per_hour.is_some();
    let of = |(hop, forecast): &(&Hop, Result<Forecast, NoForecast>)| {
        let newest = hop.samples().until(now).last()?;
        forecast.ok().filter(bounds_change)?;
        let age = now.duration_since(newest.time).unsigned_abs();
        Some(settings.stale_after.saturating_sub(age) + STALE_BY)
    };
    let shortest = forecasts
        .iter()
        .map(|hop| of(hop).unwrap_or_default())
        .min();
    shortest.unwrap_or_default()
}

/// RTT times the bandwidth of the narrowest link (thesis, section 3.3). If only the available bandwidth
/// is known, RTT times twice that, so that the transfer can use bandwidth that becomes free. No more
/// than the remaining bytes of the transfer.
fn buffer_bytes(
    history: &History,
    request: &Request,
    forecast: Option<&Forecast>,
    settings: &Settings,
) -> Option<u64> {
    let rtt = history.rtt?.as_secs_f64();
    let mbps = match settings.capacity_mbps {
        Some(capacity) => capacity,
        None => 2.0 * forecast?.available_mbps,
    };
    let product = (mbps * 1e6 / 8.0 * rtt).round() as u64;
    let needed = product.min(request.remaining_bytes.unwrap_or(u64::MAX));
    let buffers = settings.buffers;
    Some(
        needed
            .max(buffers.smallest_bytes)
            .min(buffers.largest_bytes),
    )
}

fn forecast_in_words(least: &Result<(&Hop, Forecast), NoForecast>, settings: &Settings) -> String {
    match least {
        Ok((hop, forecast)) => format!(
            "; forecast {:.1} Mbit/s by {} from {} earlier days at {}",
            forecast.available_mbps,
            settings.model.name(),
            forecast.days_used,
            name(hop)
        ),
        Err(no_forecast) => format!("; no forecast: {no_forecast}"),
    }
}

/// Names the hops that no longer count because their monitors are silent.
fn without(silent: &[(&Hop, SignedDuration)]) -> String {
    let one = |(hop, age): &(&Hop, SignedDuration)| {
        format!(
            "; {} does not count any more, its newest test is {} s old: declare it if it should",
            name(hop),
            age.as_secs()
        )
    };
    silent.iter().map(one).collect()
}

fn name(hop: &Hop) -> &str {
    if hop.name.is_empty() {
        "the hop"
    } else {
        &hop.name
    }
}
