//! The service's counters, shown by `/metrics`.

use std::sync::atomic::AtomicU64;

use fairwind_advice::Refusals;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry, Unit};

/// Labels of the counter of advice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AdviceLabels {
    interface: Interface,
    mode: &'static str,
}

/// The interface of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Interface {
    /// The REST interface.
    Rest,
    /// The thesis' calls over XML-RPC.
    XmlRpc,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// All counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    advice: Family<AdviceLabels, Counter>,
    advice_seconds: Histogram,
    accepted: Counter,
    refused: Family<Reason, Counter>,
    /// Reported transfers.
    pub(crate) transfers: Counter,
    echoes: Family<Outcome, Counter>,
    /// Histories read from the store.
    pub(crate) histories_read: Counter,
    /// XML-RPC calls that were answered with a fault.
    pub(crate) faults: Counter,
    /// Paths discovered in a transfer log.
    pub(crate) discovered: Counter,
    paths: Gauge,
    history_bytes: Gauge,
    /// Time for a transaction to reach stable storage.
    pub(crate) transaction_seconds: Histogram,
    clock: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("fairwind_advisor");
        let all = &mut registry;
        let seconds =
            |first: f64, count: u16| Histogram::new(exponential_buckets(first, 2.0, count));
        let metrics = Metrics {
            advice: add(all, "advice", "Advice given"),
            advice_seconds: add_in(
                all,
                ("advice", Unit::Seconds),
                "Time to make advice, from request to answer",
                seconds(1e-5, 18),
            ),
            accepted: add(
                all,
                "samples_accepted",
                "Samples of available bandwidth that became history",
            ),
            refused: add(
                all,
                "samples_refused",
                "Samples of available bandwidth that were refused",
            ),
            transfers: add(
                all,
                "transfers",
                "Results of our own transfers that were reported",
            ),
            echoes: add(all, "echoes", "ICMP echo requests and what became of them"),
            histories_read: add(
                all,
                "histories_read",
                "Histories that were read from the store",
            ),
            faults: add(
                all,
                "xml_rpc_faults",
                "XML-RPC calls that were answered by a fault",
            ),
            discovered: add(
                all,
                "paths_discovered",
                "Paths that a log of transfers made known",
            ),
            paths: add(all, "paths", "Paths"),
            history_bytes: add_in(
                all,
                ("histories", Unit::Bytes),
                "Memory that histories take",
                Gauge::default(),
            ),
            transaction_seconds: add_in(
                all,
                ("transaction", Unit::Seconds),
                "Time to bring a group of writes to stable storage",
                seconds(1e-4, 16),
            ),
            clock: add_in(
                all,
                ("clock", Unit::Seconds),
                "The service's own clock, Unix time",
                Gauge::default(),
            ),
            registry,
        };
        // Creates the labelled counters, so that they show as 0 instead of missing.
        metrics.count_samples(0, &Refusals::default());
        metrics
    }
}

/// Adds a new metric to the registry.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, what: &str) -> M {
    let metric = M::default();
    registry.register(name, what, metric.clone());
    metric
}

/// Adds a metric with a unit.
fn add_in<M: Metric + Clone>(
    registry: &mut Registry,
    (name, unit): (&str, Unit),
    what: &str,
    metric: M,
) -> M {
    registry.register_with_unit(name, what, unit, metric.clone());
    metric
}

impl Metrics {
    /// Counts advice that took `seconds` to make.
    pub fn count_advice(&self, interface: Interface, mode: &'static str, seconds: f64) {
        let labels = AdviceLabels { interface, mode };
        self.advice.get_or_create(&labels).inc();
        self.advice_seconds.observe(seconds);
    }

    /// Counts validated samples.
    pub fn count_samples(&self, accepted: u64, refused: &Refusals) {
        self.accepted.inc_by(accepted);
        for (reason, number) in [
            ("not_a_number", refused.not_a_number),
            ("negative", refused.negative),
            ("future", refused.future),
            ("duplicate", refused.duplicate),
            ("out_of_order", refused.out_of_order),
        ] {
            self.refused
                .get_or_create(&Reason { reason })
                .inc_by(number);
        }
    }

    /// Counts an echo request that was answered, was not answered, or could not be sent.
    pub fn count_echo(&self, outcome: &'static str) {
        self.echoes.get_or_create(&Outcome { outcome }).inc();
    }

    /// All counters in the Prometheus text format.
    pub fn text(&self, paths: usize, history_bytes: usize, clock_s: f64) -> String {
        self.paths.set(i64::try_from(paths).unwrap_or(i64::MAX));
        self.history_bytes
            .set(i64::try_from(history_bytes).unwrap_or(i64::MAX));
        self.clock.set(clock_s);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }
}
