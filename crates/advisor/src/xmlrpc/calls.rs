//! The calls and their answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dxr::{DateTime, Fault, Value};
use dxr_server::{Handler, HandlerMap, HandlerResult, async_trait};
use fairwind_advice::wire::Answer;
use fairwind_advice::{Mode, Request};
use jiff::Timestamp;

use crate::error::ServiceError;
use crate::metrics::Interface;
use crate::service::Service;

/// Fault code for invalid arguments, from the XML-RPC EPI proposal.
const WRONG_ARGUMENTS: i32 = -32602;
/// Fault code if the service cannot answer.
const INTERNAL: i32 = -32603;

/// The handlers of all calls.
pub fn handlers(service: &Service) -> HandlerMap {
    let mut handlers: HashMap<&'static str, Box<dyn Handler>> = HashMap::new();
    for call in [Call::BufferSize, Call::NetInfo, Call::Advice] {
        let service = service.clone();
        handlers.insert(call.name(), Box::new(Calls { service, call }));
    }
    Arc::new(handlers)
}

#[derive(Clone, Copy)]
enum Call {
    BufferSize,
    NetInfo,
    Advice,
}

impl Call {
    fn name(self) -> &'static str {
        match self {
            Self::BufferSize => "EnableGetBufferSize",
            Self::NetInfo => "EnableGetNetInfo",
            Self::Advice => "EnableGetAdvice",
        }
    }
}

struct Calls {
    service: Service,
    call: Call,
}

#[async_trait]
impl Handler for Calls {
    async fn handle(&self, arguments: &[Value], _: axum::http::HeaderMap) -> HandlerResult {
        match (self.call, arguments) {
            (Call::BufferSize, [host]) => self.buffer_size(text(host)?).await,
            (Call::NetInfo, [host]) => self.net_info(text(host)?).await,
            (Call::Advice, [host]) => self.advice(text(host)?, None).await,
            (Call::Advice, [host, bytes]) => self.advice(text(host)?, Some(number(bytes)?)).await,
            (Call::Advice, _) => Err(wrong(
                "the client's address and the remaining bytes are needed",
            )),
            _ => Err(wrong("the host is needed")),
        }
    }
}

impl Calls {
    async fn buffer_size(&self, host: &str) -> HandlerResult {
        let answer = self.ask(host, None).await?;
        let bytes = answer.advice.send_buffer_bytes.unwrap_or(0);
        Ok(Value::Integer(i32::try_from(bytes).unwrap_or(i32::MAX)))
    }

    async fn advice(&self, host: &str, bytes: Option<u64>) -> HandlerResult {
        let answer = self.ask(host, bytes).await?;
        Ok(Value::Struct(advice_members(&answer)))
    }

    async fn net_info(&self, host: &str) -> HandlerResult {
        let path = self
            .service
            .route(host)
            .await
            .map_err(|error| fault(&error))?;
        let path = path.ok_or_else(|| fault(&ServiceError::NoRoute(host.to_owned())))?;
        let tests = self
            .service
            .tests_of(&path)
            .await
            .map_err(|error| fault(&error))?;
        let mut members = BTreeMap::new();
        add(&mut members, "path", path.config().name.clone());
        let hops = tests.hops.into_iter().map(|(name, sample)| {
            let mut members = BTreeMap::new();
            add(&mut members, "name", name);
            if let Some(sample) = sample {
                members.insert(
                    "available_mbps".to_owned(),
                    Value::Double(sample.available_mbps),
                );
                add_time(&mut members, "time", sample.time);
            }
            Value::Struct(members)
        });
        members.insert("hops".to_owned(), Value::Array(hops.collect()));
        if let Some(round_trip) = tests.round_trip {
            members.insert("rtt_ms".to_owned(), Value::Double(round_trip.rtt_ms));
            add(&mut members, "rtt_source", round_trip.source);
            add_time(&mut members, "rtt_time", round_trip.time);
        }
        if let Some((time, transfer)) = tests.transfer {
            let throughput = Value::Double(transfer.throughput_mbps());
            members.insert("transfer_mbps".to_owned(), throughput);
            // Omitted if it was not reported.
            for (name, seconds) in transfer.limited.iter().flat_map(|limited| {
                [
                    ("transfer_network_s", limited.network_s),
                    ("transfer_receiver_s", limited.receiver_s),
                    ("transfer_sender_s", limited.sender_s),
                ]
            }) {
                members.insert(name.to_owned(), Value::Double(seconds));
            }
            add_time(&mut members, "transfer_time", time);
        }
        Ok(Value::Struct(members))
    }

    async fn ask(&self, host: &str, remaining_bytes: Option<u64>) -> Result<Answer, Fault> {
        let request = Request { remaining_bytes };
        let answer = self.service.advice(host, &request, Interface::XmlRpc).await;
        answer.map_err(|error| fault(&error))
    }
}

type Members = BTreeMap<String, Value>;

fn advice_members(answer: &Answer) -> Members {
    let advice = &answer.advice;
    let mut members = BTreeMap::new();
    let on = Value::Boolean(advice.mode == Mode::CongestionControl);
    members.insert("congestion_control".to_owned(), on);
    add(
        &mut members,
        "control",
        advice.congestion_control.clone().unwrap_or_default(),
    );
    for (name, value) in [
        ("rtt_ms", advice.rtt_ms),
        ("available_mbps", advice.available_mbps),
        ("pacing_mbps", advice.pacing_mbps),
        ("threshold_mbps", advice.threshold_mbps),
        ("ask_again_after_s", Some(answer.ask_again_after_s)),
        (
            "send_buffer_bytes",
            advice.send_buffer_bytes.map(|bytes| bytes as f64),
        ),
        (
            "receive_buffer_bytes",
            advice.receive_buffer_bytes.map(|bytes| bytes as f64),
        ),
    ] {
        // Unknown values are omitted: XML-RPC has no null.
        if let Some(value) = value {
            members.insert(name.to_owned(), Value::Double(value));
        }
    }
    add_time(&mut members, "next_advice", advice.next_advice);
    add(&mut members, "model", advice.model.clone());
    add(&mut members, "reason", advice.reason.clone());
    members
}

fn add(members: &mut Members, name: &str, text: String) {
    members.insert(name.to_owned(), Value::String(text));
}

/// Times are UTC, in whole seconds.
fn add_time(members: &mut Members, name: &str, time: Timestamp) {
    let text = time.strftime("%Y%m%dT%H:%M:%S").to_string();
    if let Ok(time) = text.parse::<DateTime>() {
        members.insert(name.to_owned(), Value::DateTime(time));
    }
}

fn text(value: &Value) -> Result<&str, Fault> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(wrong("the host is an address or a name, as text")),
    }
}

/// A number of bytes, in any type that a client can use for it.
fn number(value: &Value) -> Result<u64, Fault> {
    let number = match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::Long(number) => u64::try_from(*number).ok(),
        Value::Double(number) if (0.0..1e19).contains(number) => Some(*number as u64),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| wrong("the remaining bytes are a number that is not negative"))
}

fn wrong(problem: &str) -> Fault {
    Fault::new(WRONG_ARGUMENTS, problem.to_owned())
}

fn fault(error: &ServiceError) -> Fault {
    let code = match error {
        ServiceError::Store(_) | ServiceError::Unavailable(_) => INTERNAL,
        _ => WRONG_ARGUMENTS,
    };
    Fault::new(code, error.to_string())
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::prelude::*;

    use super::*;

    fn no_bytes() -> impl Strategy<Value = Value> {
        prop_oneof![
            (i32::MIN..0).prop_map(Value::Integer),
            (i64::MIN..0).prop_map(Value::Long),
            (-1e300..-1e-9_f64).prop_map(Value::Double),
            prop::sample::select(vec![f64::NAN, f64::INFINITY, 1e19]).prop_map(Value::Double),
            "[^0-9]{0,10}".prop_map(Value::String),
            any::<bool>().prop_map(Value::Boolean),
        ]
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_number_of_bytes_means_the_same_in_every_type(bytes in 0..1_u64 << 53) {
            let mut values = vec![
                Value::Long(bytes as i64),
                Value::Double(bytes as f64),
                Value::String(format!(" {bytes} ")),
            ];
            values.extend(i32::try_from(bytes).map(Value::Integer));
            for value in &values {
                prop_assert_eq!(number(value).ok(), Some(bytes));
            }
        }

        #[test]
        fn nothing_else_is_a_number_of_bytes(value in no_bytes()) {
            prop_assert!(number(&value).is_err());
        }
    }
}
