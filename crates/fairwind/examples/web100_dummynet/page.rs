//! The page of the thesis: what is between `<!-- NAME -->` and `<!-- end -->` is made by this
//! program.

use std::fs;
use std::path::Path;

use crate::Error;

/// A part of the page.
pub struct Section {
    /// Its name in the page.
    pub name: &'static str,
    /// What stands there, ending with a line end.
    pub markdown: String,
}

/// Replaces the parts of the page.
pub fn fill(page: &Path, sections: &[Section]) -> Result<(), Error> {
    let mut text = fs::read_to_string(page)?;
    for section in sections {
        let begin = format!("<!-- {} -->\n", section.name);
        let missing = || format!("{}: no {}", page.display(), begin.trim_end());
        let from = text.find(&begin).ok_or_else(missing)? + begin.len();
        let length = text[from..].find("<!-- end -->").ok_or_else(missing)?;
        text.replace_range(from..from + length, &section.markdown);
    }
    Ok(fs::write(page, text)?)
}
