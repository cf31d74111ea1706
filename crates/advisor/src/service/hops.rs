//! The hops of a path: their state, and the removal of unwanted ones.

use std::sync::Arc;

use fairwind_advice::{Role, deciding};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::directory::KnownPath;
use super::{Service, Shared, to_its_end};
use crate::error::ServiceError;

/// What a hop is to the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HopRole {
    /// It is declared.
    Declared,
    /// It is not declared; tests of it were reported.
    Found,
    /// The transfers of our own.
    Transfers,
    /// It has history, but hops are declared and it is none of them.
    Unused,
}

impl HopRole {
    /// `declared`, `found`, `transfers` or `unused`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Found => "found",
            Self::Transfers => "transfers",
            Self::Unused => "unused",
        }
    }

    fn of(role: Option<Role>) -> HopRole {
        match role {
            Some(Role::Declared) => Self::Declared,
            Some(Role::Found) => Self::Found,
            Some(Role::Transfers | Role::Makeshift) => Self::Transfers,
            None => Self::Unused,
        }
    }
}

/// A hop of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HopEntry {
    /// Name.
    pub name: String,
    /// What it is.
    pub role: HopRole,
    /// Whether advice rests on it now.
    pub decides: bool,
    /// When it was tested last, if ever.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub newest: Option<Timestamp>,
    /// What was available then, Mbit/s.
    pub available_mbps: Option<f64>,
}

impl Service {
    /// The hops of a path, in the order in which they were created.
    pub async fn hops(&self, path: &KnownPath) -> Result<Vec<HopEntry>, ServiceError> {
        let history = self.history(path).await?;
        let deciding = deciding(&history, self.now(), &path.settings);
        let tests = self.tests_of(path).await?;
        let entries = tests.hops.into_iter().map(|(name, newest)| HopEntry {
            role: HopRole::of(path.config().role_of(&name)),
            decides: deciding.contains(&name.as_str()),
            newest: newest.map(|sample| sample.time),
            available_mbps: newest.map(|sample| sample.available_mbps),
            name,
        });
        Ok(entries.collect())
    }

    /// Removes a hop that is not declared, and its history.
    pub async fn remove_hop(&self, path: &str, hop: &str) -> Result<(), ServiceError> {
        let (path, hop) = (path.to_owned(), hop.to_owned());
        let shared = Arc::clone(&self.shared);
        to_its_end(async move { shared.remove_hop(&path, &hop).await }).await
    }
}

impl Shared {
    async fn remove_hop(&self, path: &str, hop: &str) -> Result<(), ServiceError> {
        let alone = self.changing.lock().await;
        let path = self.path(path)?;
        let name = &path.config().name;
        if path.config().role_of(hop) == Some(Role::Declared) {
            let message = format!("hop {hop} is declared: declare path {name} without it first");
            return Err(ServiceError::Conflict(message));
        }
        let stored = path.stored.hop(hop);
        let stored = stored.ok_or_else(|| ServiceError::NoHop {
            path: name.clone(),
            hop: hop.to_owned(),
        })?;
        self.store.remove_hop(path.stored.id, stored.id).await?;
        let mut changed = KnownPath::clone(&path);
        changed.stored.hops.retain(|hop| hop.id != stored.id);
        self.take_over(changed, alone).await;
        Ok(())
    }
}
