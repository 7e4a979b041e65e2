//! A recorder for tests, with readable values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::base::lock::lock;

/// Values by `name label…`; a histogram counts.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeMap<String, f64>>>);

struct One {
    seen: Seen,
    name: String,
}

impl Seen {
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        lock(&self.0).get(name).copied()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        lock(&self.0).keys().cloned().collect()
    }

    fn one(&self, key: &Key) -> Arc<One> {
        let labels = key.labels().map(|label| format!(" {}", label.value()));
        Arc::new(One { seen: self.clone(), name: format!("{}{}", key.name(), labels.collect::<String>()) })
    }
}

impl One {
    fn set(&self, next: impl FnOnce(f64) -> f64) {
        let mut seen = lock(&self.seen.0);
        let value = seen.entry(self.name.clone()).or_default();
        *value = next(*value);
    }
}

impl CounterFn for One {
    fn increment(&self, by: u64) {
        self.set(|value| value + by as f64);
    }

    fn absolute(&self, value: u64) {
        self.set(|before| before.max(value as f64));
    }
}

impl GaugeFn for One {
    fn increment(&self, by: f64) {
        self.set(|value| value + by);
    }

    fn decrement(&self, by: f64) {
        self.set(|value| value - by);
    }

    fn set(&self, value: f64) {
        One::set(self, |_| value);
    }
}

impl HistogramFn for One {
    fn record(&self, _: f64) {
        self.set(|count| count + 1.0);
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}
