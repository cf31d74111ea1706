//! The screen of `fairwind trace --live`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use fairwind_trace::event::Event;
use fairwind_trace::live::Live;
use fairwind_trace::session::Session;
use terminal_size::{Height, Width, terminal_size};

use crate::failure::Failure;
use crate::output;

/// Time between two redraws.
const PICTURE: Duration = Duration::from_millis(500);
/// Lines and columns if there is no terminal.
const PAGE: (usize, usize) = (50, 200);

/// The terminal while it shows connections; dropping this restores it.
pub(crate) struct Screen {
    live: Live,
    is_terminal: bool,
    drawn: Duration,
}

impl Screen {
    /// Takes over the terminal, if standard output is one.
    pub(crate) fn new() -> Screen {
        let is_terminal = io::stdout().is_terminal();
        if is_terminal {
            // Alternate screen, no cursor. A closed terminal is noticed at the next redraw.
            let _ = io::stdout().write_all(b"\x1b[?1049h\x1b[?25l");
        }
        Screen {
            live: Live::new(),
            is_terminal,
            drawn: Duration::ZERO,
        }
    }

    /// Records an event.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        self.live.event(event);
    }

    /// Redraws if it is time to.
    pub(crate) fn draw(&mut self, session: &Session) -> Result<(), Failure> {
        let since = session.elapsed().saturating_sub(self.drawn);
        if since < PICTURE {
            return Ok(());
        }
        self.drawn = session.elapsed();
        let lost = session.counts().map_err(Failure::work)?.lost.iter().sum();
        let (lines, columns) = match terminal_size() {
            Some((Width(columns), Height(lines))) if self.is_terminal => {
                (usize::from(lines).saturating_sub(1), usize::from(columns))
            }
            _ => PAGE,
        };
        let picture = self.live.picture(since.as_secs_f64(), lost, lines, columns);
        if self.is_terminal {
            // Cursor to the top left; the rest of each line and of the screen is cleared while drawing.
            let picture = picture.replace('\n', "\x1b[K\r\n");
            output::line(&format!("\x1b[H{picture}\x1b[J"))?;
        } else {
            output::line(&format!("{picture}\n"))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
            let _ = io::stdout().flush();
        }
    }
}
