//! Colours of curves, the same in reports and plots.

/// The colours of Okabe and Ito ("Color Universal Design", 2008), which can be told apart with any colour
/// vision, and four of Paul Tol's muted set for more than eight curves. A darker yellow and a grey replace
/// yellow and black, so that they can be seen on white.
pub(crate) const LIGHT: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c", "#a89a00",
    "#332288", "#882255", "#44aa99", "#999933",
];

/// The same for a dark background, lighter where the colour would not stand out.
pub(crate) const DARK: [&str; 12] = [
    "#3d9fdd", "#f07c2b", "#23b88c", "#dd94bb", "#f0b43c", "#8accf2", "#b4b4b4", "#e8dc4a",
    "#8f83e0", "#d0679a", "#66c9b8", "#c2c25c",
];

/// Lost packets, on a light background.
pub(crate) const LOSS_LIGHT: &str = "#b3261e";
/// Lost packets, on a dark background.
pub(crate) const LOSS_DARK: &str = "#ff8a7a";
/// What has no colour of its own, on a light background.
pub(crate) const GREY: &str = "#9aa1a9";

/// The colour with this index on a light background; after the last comes the first.
pub(crate) fn light(number: usize) -> &'static str {
    LIGHT[number % LIGHT.len()]
}
