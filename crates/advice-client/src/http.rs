//! Requests with a deadline.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use ureq::http::{Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, Body};

use crate::access::{self, Token};
use crate::address::Address;
use crate::unix::UnixConnector;
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
    #[error(
        "{0}: an advisor's address looks like {DEFAULT_URL}, https://advisor.example.org:8649 or \
         unix:/run/fairwind/advisor.sock"
    )]
    Url(String),
    /// The token of the environment cannot be read, or is none.
    #[error("{0}")]
    Token(String),
    /// Nobody is trusted to say who a server is.
    #[error(
        "this machine trusts no authority ({0}): install ca-certificates, or name the file of one in \
         SSL_CERT_FILE"
    )]
    Trust(String),
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
    /// `unix:/path/of/socket`. Whom `https` trusts is the system's matter, or that of the variable
    /// `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// The address is none, or this machine trusts nobody.
    pub fn new(url: &str) -> Result<Client, ClientError> {
        let address = Address::parse(url)?;
        let tls = match address.is_encrypted() {
            true => access::tls()?,
            false => TlsConfig::default(),
        };
        // An advisor is a neighbour: no proxy of the environment is between.
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

    /// The same client with the token that the environment has for it: in the variable
    /// `FAIRWIND_ADVISOR_TOKEN`, or in the first line of the file that `FAIRWIND_ADVISOR_TOKEN_FILE`
    /// names. Without either, none.
    ///
    /// # Errors
    /// The file cannot be read or everybody may read it, or there is no token where one should be.
    pub fn with_token_of_environment(mut self) -> Result<Client, ClientError> {
        self.token = Token::of_environment(|name| std::env::var(name).ok())?;
        Ok(self)
    }

    /// The same client with this token.
    ///
    /// # Errors
    /// The text is no token.
    pub fn with_token(mut self, token: &str) -> Result<Client, ClientError> {
        let sound = Token::new(token);
        let none = || ClientError::Token("this text is no token".to_owned());
        self.token = Some(sound.ok_or_else(none)?);
        Ok(self)
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
        &self.url
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
            url: self.named(path),
            reason: error.to_string(),
        })
    }

    fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        let url = self.named(path);
        let text = match self.exchange(method, path, body) {
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

    /// What is at this path, for messages.
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

/// The sentence in an error's body: `{"error": "…"}`, or the body's beginning.
fn message(text: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let error = value.as_ref().and_then(|value| value["error"].as_str());
    match error {
        Some(error) => error.to_owned(),
        None => text.chars().take(200).collect(),
    }
}
