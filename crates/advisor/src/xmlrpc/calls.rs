//! The calls and their answers.

use std::sync::Arc;

use dxr::{Fault, Value};
use dxr_server::{Handler, HandlerMap, HandlerResult, async_trait};
use fairwind_advice::Request;
use fairwind_advice::wire::{Answer, Limited, TransferReport};
use jiff::Timestamp;

use crate::error::ServiceError;
use crate::service::Interface;
use crate::service::Service;

/// Fault code for invalid arguments, from the XML-RPC EPI proposal.
const WRONG_ARGUMENTS: i32 = -32602;
/// Fault code if the service cannot answer.
const INTERNAL: i32 = -32603;

/// The names of all calls.
const CALLS: [&str; 3] = ["EnableGetBufferSize", "EnableGetNetInfo", "EnableGetAdvice"];

/// The handlers of all calls.
pub(super) fn handlers(service: &Service) -> HandlerMap {
    let handler = |name| -> (&'static str, Box<dyn Handler>) {
        let service = service.clone();
        (name, Box::new(Call { service, name }))
    };
    Arc::new(CALLS.map(handler).into())
}

struct Call {
    service: Service,
    name: &'static str,
}

#[async_trait]
impl Handler for Call {
    async fn handle(&self, arguments: &[Value], _: axum::http::HeaderMap) -> HandlerResult {
        match (self.name, arguments) {
            ("EnableGetBufferSize", [host]) => self.buffer_size(text(host)?).await,
            ("EnableGetNetInfo", [host]) => self.net_info(text(host)?).await,
            ("EnableGetAdvice", [host]) => self.advice(text(host)?, None).await,
            ("EnableGetAdvice", [host, bytes]) => {
                self.advice(text(host)?, Some(number(bytes)?)).await
            }
            ("EnableGetAdvice", _) => Err(wrong(
                "the client's address and the remaining bytes are needed",
            )),
            _ => Err(wrong("the host is needed")),
        }
    }
}

impl Call {
    async fn buffer_size(&self, host: &str) -> HandlerResult {
        let answer = self.ask(host, None).await?;
        let bytes = answer.advice.send_buffer_bytes.unwrap_or(0);
        Ok(Value::Integer(i32::try_from(bytes).unwrap_or(i32::MAX)))
    }

    async fn advice(&self, host: &str, bytes: Option<u64>) -> HandlerResult {
        let answer = self.ask(host, bytes).await?;
        let advice = answer.advice;
        let buffer = |bytes: Option<u64>| double(bytes.map(|bytes| bytes as f64));
        let is_on = advice.mode.has_congestion_control();
        let control = advice.congestion_control.unwrap_or_default();
        Ok(structure([
            ("congestion_control", Some(Value::Boolean(is_on))),
            ("control", string(control)),
            ("rtt_ms", double(advice.rtt_ms)),
            ("available_mbps", double(advice.available_mbps)),
            ("pacing_mbps", double(advice.pacing_mbps)),
            ("threshold_mbps", double(advice.threshold_mbps)),
            ("ask_again_after_s", double(Some(answer.ask_again_after_s))),
            ("send_buffer_bytes", buffer(advice.send_buffer_bytes)),
            ("receive_buffer_bytes", buffer(advice.receive_buffer_bytes)),
            ("next_advice", date_time(Some(advice.next_advice))),
            ("model", string(advice.model)),
            ("reason", string(advice.reason)),
        ]))
    }

    async fn net_info(&self, host: &str) -> HandlerResult {
        let path = self.service.route(host).await.map_err(fault)?;
        let path = path.ok_or_else(|| fault(ServiceError::NoRoute(host.to_owned())))?;
        let tests = self.service.tests_of(&path).await.map_err(fault)?;
        let hops = tests.hops.into_iter().map(|(name, sample)| {
            structure([
                ("name", string(name)),
                ("available_mbps", double(sample.map(|s| s.available_mbps))),
                ("time", date_time(sample.map(|s| s.time))),
            ])
        });
        let round_trip = tests.round_trip.as_ref();
        let (time, transfer) = tests.transfer.unzip();
        let limited = transfer.as_ref().and_then(|transfer| transfer.limited);
        let limited = |time: fn(Limited) -> f64| double(limited.map(time));
        let mbps = transfer.as_ref().map(TransferReport::throughput_mbps);
        let source = round_trip.map(|one| one.source.clone());
        Ok(structure([
            ("path", string(path.config().name.clone())),
            ("hops", Some(Value::Array(hops.collect()))),
            ("rtt_ms", double(round_trip.map(|one| one.rtt_ms))),
            ("rtt_source", source.and_then(string)),
            ("rtt_time", date_time(round_trip.map(|one| one.time))),
            ("transfer_mbps", double(mbps)),
            ("transfer_network_s", limited(|times| times.network_s)),
            ("transfer_receiver_s", limited(|times| times.receiver_s)),
            ("transfer_sender_s", limited(|times| times.sender_s)),
            ("transfer_time", date_time(time)),
        ]))
    }

    async fn ask(&self, host: &str, remaining_bytes: Option<u64>) -> Result<Answer, Fault> {
        let request = Request { remaining_bytes };
        let answer = self.service.advice(host, &request, Interface::XmlRpc).await;
        answer.map_err(fault)
    }
}

/// A structure of the members that are known: XML-RPC has no null.
fn structure<const MEMBERS: usize>(members: [(&str, Option<Value>); MEMBERS]) -> Value {
    let members = members.into_iter();
    let known = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Struct(known.collect())
}

fn string(text: String) -> Option<Value> {
    Some(Value::String(text))
}

fn double(number: Option<f64>) -> Option<Value> {
    number.map(Value::Double)
}

/// Times are UTC, in whole seconds.
fn date_time(time: Option<Timestamp>) -> Option<Value> {
    let text = time?.strftime("%Y%m%dT%H:%M:%S").to_string();
    text.parse().ok().map(Value::DateTime)
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

fn fault(error: ServiceError) -> Fault {
    let code = match &error {
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
