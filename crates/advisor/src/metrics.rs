//! The service's counters, shown by `/metrics`.

use std::sync::atomic::AtomicU64;

use fairwind_advice::Refusals;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

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
    transfers: Counter,
    echoes: Family<Outcome, Counter>,
    histories_read: Counter,
    faults: Counter,
    discovered: Counter,
    paths: Gauge,
    history_bytes: Gauge,
    transaction_seconds: Histogram,
    clock: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("fairwind_advisor"),
            advice: Family::default(),
            advice_seconds: Histogram::new(exponential_buckets(1e-5, 2.0, 18)),
            accepted: Counter::default(),
            refused: Family::default(),
            transfers: Counter::default(),
            echoes: Family::default(),
            histories_read: Counter::default(),
            faults: Counter::default(),
            discovered: Counter::default(),
            paths: Gauge::default(),
            history_bytes: Gauge::default(),
            transaction_seconds: Histogram::new(exponential_buckets(1e-4, 2.0, 16)),
            clock: Gauge::default(),
        };
        metrics.register();
        // Creates the labelled counters, so that they show as 0 instead of missing.
        metrics.count_samples(0, &Refusals::default());
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("advice", "Advice given", self.advice.clone());
        let what = "Time to make advice, from request to answer";
        let seconds = || Unit::Seconds;
        registry.register_with_unit("advice", what, seconds(), self.advice_seconds.clone());
        let what = "Samples of available bandwidth that became history";
        registry.register("samples_accepted", what, self.accepted.clone());
        let what = "Samples of available bandwidth that were refused";
        registry.register("samples_refused", what, self.refused.clone());
        let what = "Results of our own transfers that were reported";
        registry.register("transfers", what, self.transfers.clone());
        let what = "ICMP echo requests and what became of them";
        registry.register("echoes", what, self.echoes.clone());
        let what = "Histories that were read from the store";
        registry.register("histories_read", what, self.histories_read.clone());
        let what = "XML-RPC calls that were answered by a fault";
        registry.register("xml_rpc_faults", what, self.faults.clone());
        let what = "Paths that a log of transfers made known";
        registry.register("paths_discovered", what, self.discovered.clone());
        registry.register("paths", "Paths", self.paths.clone());
        let what = "Memory that histories take";
        registry.register_with_unit("histories", what, Unit::Bytes, self.history_bytes.clone());
        let what = "Time to bring a group of writes to stable storage";
        let histogram = self.transaction_seconds.clone();
        registry.register_with_unit("transaction", what, seconds(), histogram);
        let what = "The service's own clock, Unix time";
        registry.register_with_unit("clock", what, seconds(), self.clock.clone());
    }

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

    /// Counts a reported transfer.
    pub fn count_transfer(&self) {
        self.transfers.inc();
    }

    /// Counts an echo request that was answered, was not answered, or could not be sent.
    pub fn count_echo(&self, outcome: &'static str) {
        self.echoes.get_or_create(&Outcome { outcome }).inc();
    }

    /// Counts a history read from the store.
    pub fn count_history_read(&self) {
        self.histories_read.inc();
    }

    /// Counts an XML-RPC call that was answered with a fault.
    pub fn count_fault(&self) {
        self.faults.inc();
    }

    /// Counts paths discovered in a transfer log.
    pub fn count_discovered(&self, paths: u64) {
        self.discovered.inc_by(paths);
    }

    /// Counts a transaction that took `seconds` to reach stable storage.
    pub fn count_transaction(&self, seconds: f64) {
        self.transaction_seconds.observe(seconds);
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
