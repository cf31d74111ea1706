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

/// A counter for each value of one label.
type Labelled = Family<[(&'static str, &'static str); 1], Counter>;

/// All counters.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    advice: Family<AdviceLabels, Counter>,
    advice_seconds: Histogram,
    accepted: Counter,
    refused: Labelled,
    /// Reported transfers.
    pub(crate) transfers: Counter,
    echoes: Labelled,
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
        let mut all = Building(Registry::with_prefix("fairwind_advisor"));
        let seconds =
            |first: f64, count: u16| Histogram::new(exponential_buckets(first, 2.0, count));
        let metrics = Metrics {
            advice: all.add("advice", "Advice given"),
            advice_seconds: all.add_in(
                Unit::Seconds,
                "advice",
                "Time to make advice, from request to answer",
                seconds(1e-5, 18),
            ),
            accepted: all.add(
                "samples_accepted",
                "Samples of available bandwidth that became history",
            ),
            refused: all.add(
                "samples_refused",
                "Samples of available bandwidth that were refused",
            ),
            transfers: all.add(
                "transfers",
                "Results of our own transfers that were reported",
            ),
            echoes: all.add("echoes", "ICMP echo requests and what became of them"),
            histories_read: all.add("histories_read", "Histories that were read from the store"),
            faults: all.add(
                "xml_rpc_faults",
                "XML-RPC calls that were answered by a fault",
            ),
            discovered: all.add(
                "paths_discovered",
                "Paths that a log of transfers made known",
            ),
            paths: all.add("paths", "Paths"),
            history_bytes: all.add_in(
                Unit::Bytes,
                "histories",
                "Memory that histories take",
                Gauge::default(),
            ),
            transaction_seconds: all.add_in(
                Unit::Seconds,
                "transaction",
                "Time to bring a group of writes to stable storage",
                seconds(1e-4, 16),
            ),
            clock: all.add_in(
                Unit::Seconds,
                "clock",
                "The service's own clock, Unix time",
                Gauge::default(),
            ),
            registry: all.0,
        };
        // Creates the labelled counters, so that they show as 0 instead of missing.
        metrics.count_samples(0, &Refusals::default());
        metrics
    }
}

/// The registry while metrics are added.
struct Building(Registry);

impl Building {
    fn add<M: Metric + Clone + Default>(&mut self, name: &str, what: &str) -> M {
        let metric = M::default();
        self.0.register(name, what, metric.clone());
        metric
    }

    fn add_in<M: Metric + Clone>(&mut self, unit: Unit, name: &str, what: &str, metric: M) -> M {
        let added = metric.clone();
        self.0.register_with_unit(name, what, unit, added);
        metric
    }
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
            let refused = self.refused.get_or_create(&[("reason", reason)]);
            refused.inc_by(number);
        }
    }

    /// Counts an echo request that was answered, was not answered, or could not be sent.
    pub fn count_echo(&self, outcome: &'static str) {
        self.echoes.get_or_create(&[("outcome", outcome)]).inc();
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
