//! Configuration of a pipe and its validation.

use crate::accounting::Accounting;
use crate::aggregation::AggregationConfig;
use crate::codel::CoDelConfig;
use crate::delay::{DelayConfig, ReorderConfig};
use crate::dualpi2::DualPi2Config;
use crate::fq_codel::{self, FqCoDelConfig};
use crate::loss::LossConfig;
use crate::pie::{self, PieConfig};
use crate::policer::PolicerConfig;
use crate::queue::Capacity;
use crate::rate::Rate;
use crate::red::RedConfig;
use crate::scheduler::SchedulerConfig;
use crate::units::Duration;

/// Configuration of a pipe. The default has unlimited bandwidth and queue, no delay and no loss.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeConfig {
    /// Rate of transmission.
    pub bandwidth: Rate,
    /// Which bytes count against the bandwidth.
    pub accounting: Accounting,
    /// The time from the end of transmission to the far end.
    pub delay: DelayConfig,
    /// What is dropped before the queue for exceeding a rate.
    pub policer: Option<PolicerConfig>,
    /// What waits after its transmission, to go on together.
    pub aggregation: Option<AggregationConfig>,
    /// Limit of the queue.
    pub capacity: Capacity,
    /// Active queue management. With several scheduler classes, each class has an independent instance.
    pub aqm: Aqm,
    /// Scheduler.
    pub scheduler: SchedulerConfig,
    /// Random loss of arriving packets.
    pub loss: LossConfig,
    /// Probability, 0 to 1, that a packet reaches the far end twice. The copy is made after transmission:
    /// it takes neither bandwidth nor queue space, and its delay is drawn separately.
    pub duplicate: f64,
    /// Deliberate reordering.
    pub reorder: Option<ReorderConfig>,
}

/// Active queue management.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Aqm {
    /// What does not fit is dropped.
    #[default]
    DropTail,
    /// Random Early Detection (Floyd and Jacobson, 1993). Thresholds are in packets, or in bytes if the
    /// queue is in bytes.
    Red(RedConfig),
    /// CoDel (RFC 8289).
    #[cfg_attr(feature = "schema", schemars(rename = "codel"))]
    CoDel(CoDelConfig),
    /// PIE (RFC 8033).
    Pie(PieConfig),
    /// FQ-CoDel (RFC 8290): a queue with CoDel for each flow, served in turn. Not with a scheduler.
    #[cfg_attr(feature = "schema", schemars(rename = "fq-codel"))]
    FqCoDel(FqCoDelConfig),
    /// DualPI2 (RFC 9332): a queue for L4S traffic, ECT(1), coupled with one for classic traffic. Not with a
    /// scheduler.
    #[cfg_attr(feature = "schema", schemars(rename = "dualpi2"))]
    DualPi2(DualPi2Config),
}

impl Aqm {
    /// Whether it decides which packet goes next, and no scheduler does.
    pub fn schedules(&self) -> bool {
        matches!(self, Aqm::FqCoDel(_) | Aqm::DualPi2(_))
    }

    /// Validates the parameters.
    ///
    /// # Errors
    ///
    /// If one is out of range; reports the first one.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Aqm::DropTail => Ok(()),
            Aqm::Red(RedConfig {
                w_q,
                min_th,
                max_th,
                max_p,
                ..
            }) => {
                let above_0 = |p: f64| p > 0.0 && p <= 1.0;
                require(above_0(*w_q), "aqm.w_q", "must be above 0 and at most 1")?;
                require(*min_th >= 0.0, "aqm.min_th", "must be at least 0")?;
                require(max_th > min_th, "aqm.max_th", "must be above min_th")?;
                require(max_th.is_finite(), "aqm.max_th", "must be finite")?;
                require(
                    above_0(*max_p),
                    "aqm.max_p",
                    "must be above 0 and at most 1",
                )
            }
            Aqm::CoDel(CoDelConfig {
                target, interval, ..
            }) => {
                require(*target > Duration::ZERO, "aqm.target", "must be above 0")?;
                require(interval > target, "aqm.interval", "must be above target")
            }
            Aqm::Pie(PieConfig {
                target,
                tupdate,
                alpha,
                beta,
                mark_ecnth,
                ..
            }) => {
                check_controller((*target, *tupdate), (*alpha, *beta))?;
                probability(*mark_ecnth, "aqm.mark_ecnth")
            }
            Aqm::DualPi2(DualPi2Config {
                target,
                tupdate,
                alpha,
                beta,
                coupling,
                ..
            }) => {
                check_controller((*target, *tupdate), (*alpha, *beta))?;
                let coupled = *coupling > 0.0 && coupling.is_finite();
                require(coupled, "aqm.coupling", "must be above 0")
            }
            Aqm::FqCoDel(FqCoDelConfig {
                flows,
                quantum,
                target,
                interval,
                ecn,
            }) => {
                let flows = (1..=fq_codel::MOST_FLOWS).contains(flows);
                require(flows, "aqm.flows", "must be 1 to 65536")?;
                require(quantum.get() > 0, "aqm.quantum", "must be above 0")?;
                let codel = CoDelConfig {
                    target: *target,
                    interval: *interval,
                    ecn: *ecn,
                };
                Aqm::CoDel(codel).check()
            }
        }
    }
}

/// Validates a proportional-integral controller: its times and gains.
fn check_controller(
    (target, tupdate): (Duration, Duration),
    (alpha, beta): (f64, f64),
) -> Result<(), ConfigError> {
    let above_0 = |gain: f64| gain > 0.0 && gain.is_finite();
    require(target > Duration::ZERO, "aqm.target", "must be above 0")?;
    let often = tupdate < pie::MIN_UPDATE;
    require(!often, "aqm.tupdate", "must be at least 100us")?;
    require(above_0(alpha), "aqm.alpha", "must be above 0")?;
    require(above_0(beta), "aqm.beta", "must be above 0")
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct ConfigError {
    /// The field, with the parameter after a dot.
    pub field: &'static str,
    /// What is wrong and what is expected.
    pub reason: String,
}

impl PipeConfig {
    /// Validates the configuration. A pipe made from an invalid one does not panic, but its behaviour is
    /// unspecified.
    ///
    /// # Errors
    ///
    /// If a field is out of range; reports the first one.
    pub fn check(&self) -> Result<(), ConfigError> {
        let bandwidth = match &self.bandwidth {
            Rate::Constant(bandwidth) => bandwidth.as_bps() > 0,
            Rate::Steps(steps) => steps.values().iter().any(|rate| rate.as_bps() > 0),
            Rate::Unlimited | Rate::Opportunities(_) => true,
        };
        require(
            bandwidth,
            "bandwidth",
            "is 0 bit/s, which sends nothing; it must be above",
        )?;
        let capacity = !matches!(self.capacity, Capacity::Packets(0) | Capacity::Bytes(0));
        require(
            capacity,
            "queue",
            "has no room for a packet; it must hold at least one",
        )?;
        if let Some(jitter) = self.delay.jitter {
            let correlation = (0.0..1.0).contains(&jitter.correlation);
            require(
                correlation,
                "jitter.correlation",
                "must be at least 0 and below 1",
            )?;
        }
        if let Some(PolicerConfig { rate, burst }) = self.policer {
            let field = "policer.rate";
            require(rate.as_bps() > 0, field, "must be above 0 bit/s")?;
            require(burst.get() > 0, "policer.burst", "must be above 0 B")?;
        }
        if let Some(AggregationConfig { interval, packets }) = self.aggregation {
            let field = "aggregation.interval";
            require(interval > Duration::ZERO, field, "must be above 0")?;
            require(
                packets != Some(0),
                "aggregation.packets",
                "must be at least 1",
            )?;
        }
        self.aqm.check()?;
        self.check_scheduler()?;
        self.check_loss()?;
        probability(self.duplicate, "duplicate")?;
        self.reorder.map_or(Ok(()), |reorder| {
            probability(reorder.probability, "reorder")
        })
    }

    fn check_scheduler(&self) -> Result<(), ConfigError> {
        let alone = !self.aqm.schedules() || self.scheduler == SchedulerConfig::Fifo;
        require(
            alone,
            "scheduler",
            "must be FIFO with an AQM that schedules",
        )?;
        match &self.scheduler {
            SchedulerConfig::Fifo => Ok(()),
            SchedulerConfig::StrictPriority { classes } => {
                require(*classes > 0, "scheduler.classes", "must be at least 1")
            }
            SchedulerConfig::Wf2q { weights } => {
                let some = !weights.is_empty();
                require(some, "scheduler.weights", "must name at least one class")?;
                let positive = weights.iter().all(|&weight| weight > 0);
                require(positive, "scheduler.weights", "must each be at least 1")
            }
        }
    }

    fn check_loss(&self) -> Result<(), ConfigError> {
        match &self.loss {
            LossConfig::None => Ok(()),
            LossConfig::Bernoulli(p) => probability(*p, "loss"),
            LossConfig::GilbertElliott { p, r, h, k } => {
                probability(*p, "loss.p")?;
                probability(*r, "loss.r")?;
                probability(*h, "loss.h")?;
                probability(*k, "loss.k")
            }
            LossConfig::Steps(steps) => steps
                .values()
                .iter()
                .try_for_each(|&p| probability(p, "loss")),
        }
    }
}

fn require(right: bool, field: &'static str, reason: &str) -> Result<(), ConfigError> {
    let reason = reason.to_owned();
    if right {
        Ok(())
    } else {
        Err(ConfigError { field, reason })
    }
}

fn probability(p: f64, field: &'static str) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    let reason = format!("{p} is not a probability; it must be 0 to 1");
    Err(ConfigError { field, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bandwidth;

    fn complaint(change: impl FnOnce(&mut PipeConfig)) -> String {
        let mut config = PipeConfig::default();
        change(&mut config);
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_right() {
        assert_eq!(PipeConfig::default().check(), Ok(()));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        let nothing = Rate::Constant(Bandwidth::from_bps(0));
        assert_eq!(
            complaint(|c| c.bandwidth = nothing),
            "bandwidth: is 0 bit/s, which sends nothing; it must be above"
        );
        assert_eq!(
            complaint(|c| c.capacity = Capacity::Packets(0)),
            "queue: has no room for a packet; it must hold at least one"
        );
        assert_eq!(
            complaint(|c| c.loss = LossConfig::Bernoulli(1.5)),
            "loss: 1.5 is not a probability; it must be 0 to 1"
        );
        assert_eq!(
            complaint(|c| c.duplicate = f64::NAN),
            "duplicate: NaN is not a probability; it must be 0 to 1"
        );
        let red = RedConfig {
            min_th: 15.0,
            ..RedConfig::default()
        };
        assert_eq!(
            complaint(|c| c.aqm = Aqm::Red(red)),
            "aqm.max_th: must be above min_th"
        );
        let weights = vec![1, 0];
        assert_eq!(
            complaint(|c| c.scheduler = SchedulerConfig::Wf2q { weights }),
            "scheduler.weights: must each be at least 1"
        );
    }
}
