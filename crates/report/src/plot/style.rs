//! Style shared by all plots: colours, dashes, text.

use std::fmt::Write;

use super::palette;

/// CSS rules of every plot, on any background.
pub const STYLE: &str = "\
    text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans',sans-serif}\
    polyline{fill:none;stroke-linejoin:round}";

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stroke {
    /// `stroke-dasharray`; empty for none.
    pub dash: &'static str,
    /// Steps: level until the next point instead of a straight line to it.
    pub steps: bool,
    /// Thin whatever the number of curves.
    pub thin: bool,
}

impl Stroke {
    /// Straight from point to point.
    pub const SOLID: Stroke = Stroke {
        dash: "",
        steps: false,
        thin: false,
    };
    /// The same, dashed.
    pub const DASHED: Stroke = Stroke {
        dash: "5 2.5",
        ..Stroke::SOLID
    };
    /// Level from point to point.
    pub const STEPS: Stroke = Stroke {
        steps: true,
        ..Stroke::SOLID
    };
    /// The same, dashed.
    pub const DASHED_STEPS: Stroke = Stroke {
        steps: true,
        ..Stroke::DASHED
    };
    /// A threshold: thin dashed steps.
    pub const THRESHOLD: Stroke = Stroke {
        dash: "5 4",
        steps: true,
        thin: true,
    };
    /// A threshold beside another: thin dotted steps.
    pub const DOTTED_THRESHOLD: Stroke = Stroke {
        dash: "1.5 3",
        ..Stroke::THRESHOLD
    };

    /// The attribute for dashes with a space before it; empty for a solid curve.
    pub fn dash_attribute(&self) -> String {
        match self.dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        }
    }
}

/// CSS rules for a dark background; the attributes in the drawing hold the colours for a light one.
pub fn dark_style() -> String {
    let mut style = String::from(
        "@media (prefers-color-scheme:dark){.ground{fill:#15181b}.text{fill:#e4e7ea}\
         .muted{fill:#9aa1a9}.grid{stroke:#2b3035}.axis{stroke:#60656c}",
    );
    // Writing to a string cannot fail.
    let _ = write!(style, ".loss{{stroke:{}}}", palette::LOSS_DARK);
    for (number, colour) in palette::DARK.iter().enumerate() {
        let _ = write!(style, ".c{number}{{stroke:{colour}}}");
    }
    style.push('}');
    style
}

/// CSS class and light colour for the index of a colour; grey for none.
pub fn colour(number: Option<usize>) -> (String, &'static str) {
    match number {
        Some(number) => (
            format!("c{}", number % palette::DARK.len()),
            palette::LIGHT[number % palette::LIGHT.len()],
        ),
        None => ("axis".to_owned(), "#9aa1a9"),
    }
}

/// `text`, cut to `most` characters.
pub fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// Escapes `text` for XML; characters that XML does not allow are left out.
pub fn escape(text: &str) -> String {
    let allowed: String = text
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'))
        .collect();
    crate::html::escape(&allowed)
}
