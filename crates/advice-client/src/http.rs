//! The client: HTTP requests with a deadline.

use std::time::Duration;

use fairwind_advice::wire::{Answer, TransferReport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use ureq::http::{Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Body};

use crate::access::{self, Token};
use crate::address::Address;
use crate::query;
use crate::unix::UnixConnector;

/// The default address of an advisor.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8649";

/// Default deadline for a request and its answer; see [`Client::with_deadline`].
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(2);

/// Default limit on the length of an answer, bytes; see [`Client::with_longest_answer`].
const LONGEST_ANSWER: u64 = 64 << 20;

/// Why a request failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The address has an unknown form.
    #[error(
        "{0}: an advisor's address looks like {DEFAULT_URL}, https://advisor.example.org:8649 or \
         unix:/run/fairwind/advisor.sock"
    )]
    Url(String),
    /// The token cannot be read or is invalid.
    #[error("{0}")]
    Token(String),
    /// The system has no trusted authorities to verify a server with.
    #[error(
        "this machine trusts no authority ({0}): install ca-certificates, or name the file of one in \
         SSL_CERT_FILE"
    )]
    Trust(String),
    /// The connection failed, the deadline passed, or the answer was too long.
    #[error("{url}: {reason}")]
    Unreachable {
        /// The URL of the request.
        url: String,
        /// The error.
        reason: String,
    },
    /// The advisor refused the request.
    #[error("{url}: {status} {message}")]
    Refused {
        /// The URL of the request.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The advisor's explanation.
        message: String,
    },
    /// The answer is not the expected JSON.
    #[error("{url}: the answer makes no sense: {reason}")]
    Nonsense {
        /// The URL of the request.
        url: String,
        /// The parser's error.
        reason: String,
    },
}

/// A client of one advisor. Cheap to clone; connections are reused.
#[derive(Clone, Debug)]
pub struct Client {
    address: Address,
    /// The address, for messages.
    url: String,
    token: Option<Token>,
    deadline: Duration,
    longest_answer: u64,
    agent: Agent,
}

impl Client {
    /// A client of the advisor at `url`: `http://host:port`, `https://host:port`, `host:port`, or
    /// `unix:/path/of/socket`. For `https`, the system's authorities are trusted, or those in the file
    /// named by the variable `SSL_CERT_FILE`.
    ///
    /// # Errors
    ///
    /// If the address has another form, or, for `https`, no authority is trusted.
    pub fn new(url: &str) -> Result<Client, ClientError> {
        let address = Address::parse(url)?;
        let tls = match address.is_encrypted() {
            true => access::tls()?,
            false => TlsConfig::default(),
        };
        // The advisor is nearby, so the environment's proxy settings do not apply.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls)
            .build();
        let agent = match &address {
            Address::Url(_) => config.into(),
            Address::Socket(path) => {
                let connector = UnixConnector(path.clone());
                Agent::with_parts(config, connector, DefaultResolver::default())
            }
        };
        Ok(Client {
            url: address.to_string(),
            address,
            token: None,
            deadline: DEFAULT_DEADLINE,
            longest_answer: LONGEST_ANSWER,
            agent,
        })
    }

    /// The same client with the token from the environment: the value of `FAIRWIND_ADVISOR_TOKEN`, or
    /// else the first line of the file named by `FAIRWIND_ADVISOR_TOKEN_FILE`. Without either variable,
    /// the client has no token.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, every user may read it, or the text is not a token.
    pub fn with_token_of_environment(mut self) -> Result<Client, ClientError> {
        self.token = Token::of_environment(|name| std::env::var(name).ok())?;
        Ok(self)
    }

    /// The same client with the given token.
    ///
    /// # Errors
    ///
    /// If the text is not a token (RFC 6750).
    pub fn with_token(mut self, token: &str) -> Result<Client, ClientError> {
        let sound = Token::new(token);
        let none = || ClientError::Token("this text is not a token".to_owned());
        self.token = Some(sound.ok_or_else(none)?);
        Ok(self)
    }

    /// The same client with another deadline for a request and its answer.
    pub fn with_deadline(mut self, deadline: Duration) -> Client {
        self.deadline = deadline;
        self
    }

    /// The same client with another limit on the length of answers, in bytes.
    pub fn with_longest_answer(mut self, bytes: u64) -> Client {
        self.longest_answer = bytes;
        self
    }

    /// The address of the advisor.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Advice for a transfer to or from `host`, of which `bytes` remain, if known.
    ///
    /// # Errors
    ///
    /// As of every request, and if the answer is for destinations to which the host does not belong.
    pub fn advice(&self, host: &str, bytes: Option<u64>) -> Result<Answer, ClientError> {
        let bytes = bytes.map(|bytes| bytes.to_string());
        let mut pairs = vec![("host", host)];
        pairs.extend(bytes.as_deref().map(|bytes| ("bytes", bytes)));
        let path = format!("/v1/advice{}", query(&pairs));
        let mut answer: Answer = self.get(&path)?;
        match (answer.prefix, host.parse()) {
            (Some(prefix), Ok(address)) if !prefix.contains(address) => {
                return Err(ClientError::Nonsense {
                    url: self.named(&path),
                    reason: format!("it holds for {prefix}, which does not contain {host}"),
                });
            }
            // Which of its addresses was meant is not known here.
            (_, Err(_)) => answer.prefix = None,
            _ => {}
        }
        Ok(answer)
    }

    /// Reports the result of a transfer to the advisor.
    pub fn report(&self, report: &TransferReport) -> Result<(), ClientError> {
        self.post("/v1/transfers", report)
            .map(|_: serde_json::Value| ())
    }

    /// Sends a GET request for `path`, which begins with `/`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(Method::GET, path, None::<&()>)
    }

    /// Sends a POST request with `body` as JSON.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.request(Method::POST, path, Some(body))
    }

    /// Sends a PUT request with `body` as JSON.
    pub fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.request(Method::PUT, path, Some(body))
    }

    /// Sends a DELETE request for `path`.
    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.request(Method::DELETE, path, None::<&()>)
    }

    fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let url = self.named(path);
        let nonsense = |error: serde_json::Error| ClientError::Nonsense {
            url: url.clone(),
            reason: error.to_string(),
        };
        let body = body.map(serde_json::to_vec).transpose().map_err(nonsense)?;
        match self.exchange(method, path, body.unwrap_or_default()) {
            Ok((200..300, text)) => {
                let text = if text.is_empty() { "null" } else { &text };
                serde_json::from_str(text).map_err(nonsense)
            }
            Ok((status, text)) => Err(ClientError::Refused {
                message: message(&text),
                url,
                status,
            }),
            Err(error) => Err(ClientError::Unreachable {
                url,
                reason: error.to_string(),
            }),
        }
    }

    /// The name of `path` in messages.
    fn named(&self, path: &str) -> String {
        match &self.address {
            Address::Url(url) => format!("{url}{path}"),
            Address::Socket(_) => format!("{} {path}", self.url),
        }
    }

    fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(u16, String), ureq::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.address.request(path))
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", token.header());
        }
        let request = request.body(body)?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_global(Some(self.deadline)).build();
        let mut response: Response<Body> = self.agent.run(request)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(self.longest_answer);
        Ok((status, body.read_to_string()?))
    }
}

/// The message in the body of an error, `{"error": "…"}`, or else the beginning of the body.
fn message(text: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let error = value.as_ref().and_then(|value| value["error"].as_str());
    match error {
        Some(error) => error.to_owned(),
        None => text.chars().take(200).collect(),
    }
}
