//! Recording samples and transfers.

use std::collections::BTreeMap;

use fairwind_advice::wire::TransferReport;
use fairwind_advice::{Refusals, Sample};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Service;
use super::directory::KnownPath;
use crate::error::ServiceError;
use crate::path::{HOPS_AT_MOST, TRANSFERS_HOP, is_hop};
use crate::store::{Group, Kept, Order, RoundTrip, Write, Written};

/// The source recorded with round-trip times of reported transfers.
const TRANSFER: &str = "transfer";

/// A sample of a hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSample {
    /// Name of the hop; the path's first if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hop: Option<String>,
    /// When the test was made: RFC 3339.
    #[schema(value_type = String, format = DateTime)]
    pub time: Timestamp,
    /// Available bandwidth, Mbit/s. What is no number (null, "NaN") is refused and counted.
    #[schema(value_type = f64)]
    #[serde(deserialize_with = "number")]
    pub available_mbps: f64,
    /// Round-trip time, milliseconds, if it was measured too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Who made the test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// Accepts any JSON as a number: JSON has no NaN, so programs write null or a string, and one invalid test
/// must not invalidate the others.
fn number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Number {
        Number(f64),
        Other(serde::de::IgnoredAny),
    }
    Ok(match Number::deserialize(deserializer)? {
        Number::Number(number) => number,
        Number::Other(_) => f64::NAN,
    })
}

/// What became of samples. They are on stable storage, and the next advice knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SamplesAnswer {
    /// How many are history now.
    pub accepted: u64,
    /// How many were refused, by reason.
    pub refused: Refusals,
}

/// What became of the result of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TransferAnswer {
    /// Name of the path that leads to the host.
    pub path: String,
    /// What counts as a test of the path's available bandwidth, Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_mbps: Option<f64>,
    /// Why nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_test: Option<String>,
}

impl SamplesAnswer {
    fn add(&mut self, kept: &Kept) {
        let refused = &kept.refused;
        self.accepted += kept.samples.len() as u64;
        self.refused.not_a_number += refused.not_a_number;
        self.refused.negative += refused.negative;
        self.refused.future += refused.future;
        self.refused.duplicate += refused.duplicate;
        self.refused.out_of_order += refused.out_of_order;
    }

    /// Why a single sample was refused.
    fn refusal(&self) -> Option<&'static str> {
        let refused = &self.refused;
        let reasons = [
            (refused.not_a_number, "its throughput is not a number"),
            (refused.negative, "its throughput is negative"),
            (refused.future, "it ended later than it is now"),
            (refused.duplicate, "a test of this time is there already"),
            (refused.out_of_order, "a later test is there already"),
        ];
        let reason = reasons.iter().find(|(number, _)| *number > 0);
        reason.map(|(_, reason)| *reason)
    }
}

impl Service {
    /// Records tests of a path's hops.
    pub async fn record(
        &self,
        path: &KnownPath,
        samples: &[NewSample],
    ) -> Result<SamplesAnswer, ServiceError> {
        let mut by_hop: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
        let mut writes = Vec::new();
        for sample in samples {
            let hop = sample.hop.as_deref().unwrap_or(path.config().default_hop());
            check_hop(hop)?;
            by_hop.entry(hop).or_default().push(Sample {
                time: sample.time,
                available_mbps: sample.available_mbps,
            });
            let rtt = sample.rtt_ms.filter(|rtt| rtt.is_finite() && *rtt > 0.0);
            if let Some(rtt_ms) = rtt.filter(|_| sample.time <= self.now()) {
                let source = sample.source.as_deref().unwrap_or_default();
                writes.push(round_trip(sample.time, rtt_ms, source));
            }
        }
        for (hop, samples) in by_hop {
            writes.push(self.samples_of(hop, samples, Order::Append));
        }
        self.write(path, writes).await
    }

    /// Records an imported history of a hop, which may be older than what is stored.
    pub async fn fill(
        &self,
        path: &KnownPath,
        hop: &str,
        samples: Vec<Sample>,
    ) -> Result<SamplesAnswer, ServiceError> {
        check_hop(hop)?;
        let write = self.samples_of(hop, samples, Order::Fill);
        self.write(path, vec![write]).await
    }

    /// Records the result of a reported transfer.
    pub async fn record_transfer(
        &self,
        report: TransferReport,
    ) -> Result<TransferAnswer, ServiceError> {
        report.check().map_err(ServiceError::Invalid)?;
        let path = self.route(&report.host).await?;
        let path = path.ok_or_else(|| ServiceError::NoRoute(report.host.clone()))?;
        let now = self.now();
        let mut writes = Vec::new();
        if let Some(rtt_ms) = report.rtt_ms {
            writes.push(round_trip(now, rtt_ms, TRANSFER));
        }
        let test = if path.config().learns_from_transfers() {
            report.available_mbps().map_err(|why| why.to_string())
        } else {
            Err("this path takes no samples from transfers".to_owned())
        };
        if let Ok(available_mbps) = test {
            let sample = Sample {
                time: now,
                available_mbps,
            };
            writes.push(self.samples_of(TRANSFERS_HOP, vec![sample], Order::Append));
        }
        writes.push(Write::Transfer { time: now, report });
        let answer = self.write(&path, writes).await?;
        // The report is on stable storage; an error here would make the client send it again and count it
        // twice.
        if let Err(error) = self.see_again(&path).await {
            let name = &path.config().name;
            tracing::warn!("path {name}: that its host has come up is not kept: {error}");
        }
        let test = match answer.refusal() {
            Some(why) => Err(why.to_owned()),
            None => test,
        };
        Ok(TransferAnswer {
            path: path.config().name.clone(),
            test_mbps: test.as_ref().ok().copied(),
            no_test: test.err(),
        })
    }

    /// Records a round-trip time measured now, milliseconds.
    pub async fn record_round_trip(
        &self,
        path: &KnownPath,
        rtt_ms: f64,
        source: &str,
    ) -> Result<(), ServiceError> {
        let write = round_trip(self.now(), rtt_ms, source);
        self.write(path, vec![write]).await?;
        Ok(())
    }

    fn samples_of(&self, hop: &str, samples: Vec<Sample>, order: Order) -> Write {
        Write::Samples {
            hop: hop.to_owned(),
            samples,
            order,
            now: self.now(),
        }
    }

    async fn write(
        &self,
        path: &KnownPath,
        writes: Vec<Write>,
    ) -> Result<SamplesAnswer, ServiceError> {
        let name = &path.config().name;
        let path = path.stored.id;
        match self.writer.write(Group { path, writes }).await? {
            Written::Gone => Err(ServiceError::NoPath(name.clone())),
            Written::Full => Err(ServiceError::Invalid(format!(
                "path {name} has {HOPS_AT_MOST} hops at most; `fairwind advisor hops remove` makes room"
            ))),
            Written::Done(kept) => {
                let mut answer = SamplesAnswer::default();
                kept.iter().for_each(|kept| answer.add(kept));
                Ok(answer)
            }
        }
    }
}

fn round_trip(time: Timestamp, rtt_ms: f64, source: &str) -> Write {
    let shown = source.chars().filter(|c| !c.is_control());
    Write::RoundTrip(RoundTrip {
        time,
        rtt_ms,
        source: shown.take(64).collect(),
    })
}

fn check_hop(hop: &str) -> Result<(), ServiceError> {
    if is_hop(hop) {
        return Ok(());
    }
    let problem = format!("hop {hop:?}: names have 1 to 64 characters and no control characters");
    Err(ServiceError::Invalid(problem))
}
