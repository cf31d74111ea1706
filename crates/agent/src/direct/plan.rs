//! What of a wish needs no right.

use fairwind_cc::kernel::{Choice, LoadError, provide};
use fairwind_transfer::advised::Refusal;
use fairwind_transfer::background::Control;

use super::DirectError;
use crate::advised::Advisor;
use crate::attended::Wanted;
use crate::error::RunError;

/// In the place of the congestion control `fairwind`: those of `cc/` that yield as well, then the kernel's own.
const SUBSTITUTES: [&str; 3] = ["ledbatpp", "nice", "lp"];

/// What sockets are given.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The kernel's name of a congestion control.
    pub control: Option<String>,
    /// Whether connections have it whose program chooses another.
    pub is_forced: bool,
    /// Largest rate of each connection, bytes a second.
    pub max_rate: Option<u32>,
    /// Whether packets have the mark of the Lower-Effort service.
    pub is_lower_effort: bool,
    /// Whether what the connections receive is held down.
    pub is_held: bool,
    /// Whose advice the connections follow.
    pub advisor: Option<Advisor>,
    /// What is not given, and why.
    pub left_out: Vec<String>,
}

impl Plan {
    pub(super) fn of(wanted: &Wanted) -> Result<Plan, RunError> {
        if let Some(choice) = &wanted.control
            && let Err(unknown @ LoadError::Unknown { .. }) = provide(choice)
        {
            return Err(unknown.into());
        }
        Ok(Plan::with(wanted, present)?)
    }

    /// Whether a program's own choice of a congestion control matters.
    pub(super) fn chooses_control(&self) -> bool {
        self.control.is_some() || self.advisor.is_some()
    }

    /// Whether connections are looked at again and again.
    pub(super) fn looks(&self) -> bool {
        self.is_held || self.advisor.is_some()
    }

    /// The same, where this says by which name the kernel has a control for everybody.
    fn with(
        wanted: &Wanted,
        present: impl Fn(&str) -> Result<String, Refusal> + Copy,
    ) -> Result<Plan, DirectError> {
        let mut left_out = Vec::new();
        let control = match &wanted.control {
            None => None,
            Some(Choice::Own(parameters)) => {
                let name = parameters.control().name();
                // In the background, without them is better than another or none.
                let there = wanted.is_held.then(|| present(name).ok()).flatten();
                left_out.push(match there {
                    Some(_) => format!(
                        "the parameters of the congestion control {name}: whoever loads it sets them"
                    ),
                    None => format!(
                        "the congestion control {name}: whoever loads it sets its parameters"
                    ),
                });
                there
            }
            Some(Choice::Named(name)) => present(name)
                .inspect_err(|refusal| left_out.push(reason(name, refusal)))
                .ok(),
        };
        let control = control.or_else(|| {
            let substitute = substitute(present).filter(|_| wanted.is_held)?;
            left_out.push(format!("{substitute} is in its place"));
            Some(substitute)
        });
        let plan = Plan {
            control,
            is_forced: wanted.is_forced,
            max_rate: wanted.max_rate,
            is_lower_effort: wanted.is_lower_effort,
            is_held: wanted.is_held,
            advisor: wanted.advisor.clone(),
            left_out,
        };
        let is_nothing = plan.control.is_none()
            && plan.max_rate.is_none()
            && !plan.is_lower_effort
            && !plan.looks();
        match is_nothing {
            true => Err(DirectError::Nothing {
                left_out: plan.left_out,
            }),
            false => Ok(plan),
        }
    }
}

/// By which name the kernel has a control for everybody.
pub(super) fn present(name: &str) -> Result<String, Refusal> {
    Control::present(name).map(|one| one.name().to_owned())
}

/// Another control that yields, by the kernel's name.
pub(super) fn substitute(present: impl Fn(&str) -> Result<String, Refusal>) -> Option<String> {
    SUBSTITUTES.iter().find_map(|name| present(name).ok())
}

pub(super) fn reason(name: &str, Refusal { reason, fix }: &Refusal) -> String {
    format!("the congestion control {name}: {reason}; as root: {fix}")
}

#[cfg(test)]
mod tests {
    use fairwind_cc::native;

    use super::*;

    fn background() -> Wanted {
        Wanted {
            control: Some(Choice::Named("fairwind".to_owned())),
            is_held: true,
            ..Wanted::default()
        }
    }

    fn only(there: &'static str) -> impl Fn(&str) -> Result<String, Refusal> + Copy {
        move |name| match name {
            _ if name == there => Ok(format!("fw_{name}")),
            _ => Err(Refusal {
                reason: "it is not there".to_owned(),
                fix: "load it".to_owned(),
            }),
        }
    }

    #[test]
    fn what_is_allowed_to_everybody_is_given() {
        let plan = Plan::with(&background(), only("fairwind")).unwrap();
        assert_eq!(plan.control.as_deref(), Some("fw_fairwind"));
        assert!(plan.is_held && plan.left_out.is_empty());
    }

    #[test]
    fn in_the_background_another_that_yields_is_better_than_none() {
        let plan = Plan::with(&background(), only("lp")).unwrap();
        assert_eq!(plan.control.as_deref(), Some("fw_lp"));
        let said = "the congestion control fairwind: it is not there; as root: load it";
        assert_eq!(plan.left_out, [said, "fw_lp is in its place"]);
        let plan = Plan::with(&background(), only("")).unwrap();
        assert_eq!((plan.control, plan.left_out.len()), (None, 1));
        let reno = Wanted {
            control: Some(Choice::Named("reno".to_owned())),
            max_rate: Some(1),
            ..Wanted::default()
        };
        let plan = Plan::with(&reno, only("lp")).unwrap();
        assert_eq!(plan.control, None, "somebody has asked for reno");
    }

    #[test]
    fn parameters_are_left_out_and_advice_is_followed() {
        let parameters = native::find("fairwind").unwrap().default_parameters();
        let wanted = Wanted {
            control: Some(Choice::Own(parameters)),
            advisor: Some(Advisor::default()),
            ..Wanted::default()
        };
        let plan = Plan::with(&wanted, only("fairwind")).unwrap();
        assert_eq!(plan.control, None);
        assert_eq!(plan.left_out.len(), 1);
        assert!(plan.advisor.is_some() && plan.chooses_control() && plan.looks());
    }

    #[test]
    fn in_the_background_a_control_is_given_without_its_parameters() {
        let parameters = native::find("fairwind").unwrap().default_parameters();
        let wanted = Wanted {
            control: Some(Choice::Own(parameters)),
            ..background()
        };
        let plan = Plan::with(&wanted, only("fairwind")).unwrap();
        assert_eq!(plan.control.as_deref(), Some("fw_fairwind"));
        let said = "the parameters of the congestion control fairwind: whoever loads it sets them";
        assert_eq!(plan.left_out, [said]);
        let plan = Plan::with(&wanted, only("lp")).unwrap();
        assert_eq!(plan.control.as_deref(), Some("fw_lp"));
        let said = "the congestion control fairwind: whoever loads it sets its parameters";
        assert_eq!(plan.left_out, [said, "fw_lp is in its place"]);
    }

    #[test]
    fn if_all_is_left_out_there_is_nothing_to_do() {
        let bbr = Wanted {
            control: Some(Choice::Named("bbr".to_owned())),
            ..Wanted::default()
        };
        let error = Plan::with(&bbr, only("")).unwrap_err().to_string();
        assert!(
            error.contains("the congestion control bbr: it is not"),
            "{error}"
        );
        let marked = Wanted {
            is_lower_effort: true,
            ..bbr
        };
        let plan = Plan::with(&marked, only("")).unwrap();
        assert!(plan.is_lower_effort && plan.control.is_none());
        assert_eq!(plan.left_out.len(), 1);
    }
}
