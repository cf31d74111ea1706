//! Requests with a deadline.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body};

use crate::{Answer, Transfer, query};

/// Where an advisor listens unless it was told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8649";

/// Time for a request and its answer unless [`Client::with_deadline`] says otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

/// Answers longer than this are refused unless [`Client::with_longest_answer`] says otherwise, bytes.
const LONGEST_ANSWER: u64 = 64 << 20;

/// Why there is no answer. Every message names the URL.
#[derive(Debug, Error)]
pub enum ClientError {
    /// This is no address of an advisor.
    #[error("{0}: an advisor's address looks like {DEFAULT_URL}")]
    Url(String),
    /// Nobody answered in time, or nobody is there.
    #[error("{url}: {reason}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What went wrong.
        reason: String,
    },
    /// The advisor refused.
    #[error("{url}: {status} {message}")]
    Refused {
        /// What was asked.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the advisor says about it.
        message: String,
    },
    /// The answer is not what an advisor answers.
    #[error("{url}: the answer makes no sense: {reason}")]
    Nonsense {
        /// What was asked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// A client of one advisor. Cheap to clone; connections are kept.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    deadline: Duration,
    longest_answer: u64,
    agent: Agent,
}

impl Client {
    /// A client of the advisor at `url`: `http://host:port`, or `host:port`.
    pub fn new(url: &str) -> Result<Client, ClientError> {
        let base = match url.contains("://") {
            true => url.trim_end_matches('/').to_owned(),
            false => format!("http://{}", url.trim_end_matches('/')),
        };
        let sound = base.starts_with("http://")
            && base
                .parse::<ureq::http::Uri>()
                .is_ok_and(|uri| uri.host().is_some_and(|host| !host.is_empty()));
        if !sound {
            return Err(ClientError::Url(url.to_owned()));
        }
        // An advisor is a neighbour: no proxy of the environment is between.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Ok(Client {
            base,
            deadline: DEFAULT_DEADLINE,
            longest_answer: LONGEST_ANSWER,
            agent: config.into(),
        })
    }

    /// The same client with another time for a request and its answer.
    pub fn with_deadline(mut self, deadline: Duration) -> Client {
        self.deadline = deadline;
        self
    }

    /// The same client, which refuses answers of more than so many bytes.
    pub fn with_longest_answer(mut self, bytes: u64) -> Client {
        self.longest_answer = bytes;
        self
    }

    /// Where the advisor is.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// Advice for a transfer to or from `host`, of which so many bytes remain.
    pub fn advice(&self, host: &str, bytes: Option<u64>) -> Result<Answer, ClientError> {
        let bytes = bytes.map(|bytes| bytes.to_string());
        let mut pairs = vec![("host", host)];
        pairs.extend(bytes.as_deref().map(|bytes| ("bytes", bytes)));
        self.get(&format!("/v1/advice{}", query(&pairs)))
    }

    /// Tells the advisor how a transfer went.
    pub fn report(&self, transfer: &Transfer) -> Result<(), ClientError> {
        self.post("/v1/transfers", transfer)
            .map(|_: serde_json::Value| ())
    }

    /// What the advisor has at this path, which begins with `/`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(Method::GET, path, Vec::new())
    }

    /// Gives the advisor `body`, as JSON.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.request(Method::POST, path, self.json(path, body)?)
    }

    /// Puts `body`, as JSON, at this path.
    pub fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.request(Method::PUT, path, self.json(path, body)?)
    }

    /// Deletes what is at this path.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(Method::DELETE, path, Vec::new())
    }

    fn json(&self, path: &str, body: &impl Serialize) -> Result<Vec<u8>, ClientError> {
        serde_json::to_vec(body).map_err(|error| ClientError::Nonsense {
            url: format!("{}{path}", self.base),
            reason: error.to_string(),
        })
    }

    fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        let url = format!("{}{path}", self.base);
        let text = match self.exchange(method, &url, body) {
            Ok((200..300, text)) => text,
            Ok((status, text)) => {
                let message = message(&text);
                return Err(ClientError::Refused {
                    url,
                    status,
                    message,
                });
            }
            Err(error) => {
                let reason = error.to_string();
                return Err(ClientError::Unreachable { url, reason });
            }
        };
        let text = if text.is_empty() { "null" } else { &text };
        serde_json::from_str(text).map_err(|error| ClientError::Nonsense {
            url,
            reason: error.to_string(),
        })
    }

    fn exchange(
        &self,
        method: Method,
        url: &str,
        body: Vec<u8>,
    ) -> Result<(u16, String), ureq::Error> {
        let request = Request::builder()
            .method(method)
            .uri(url)
            .header("content-type", "application/json")
            .body(body)?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_global(Some(self.deadline)).build();
        let mut response: Response<Body> = self.agent.run(request)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(self.longest_answer);
        Ok((status, body.read_to_string()?))
    }
}

/// The sentence in an error's body: `{"error": "…"}`, or the body's beginning.
fn message(text: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let error = value.as_ref().and_then(|value| value["error"].as_str());
    match error {
        Some(error) => error.to_owned(),
        None => text.chars().take(200).collect(),
    }
}
