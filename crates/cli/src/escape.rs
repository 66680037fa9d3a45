//! Text from outside, made safe for a terminal.
//!
//! A release feed, a collector's stderr or a file name can carry escape sequences that move the cursor,
//! repaint what the operator believes, or reverse the reading direction. What people read passes through
//! here last, at the edge; documents for machines stay exact, since JSON escapes by itself.

use std::{borrow::Cow, fmt::Write as _};

/// `text` for one line: every control character, line breaks included, becomes visible.
pub fn line(text: &str) -> Cow<'_, str> {
    visible(text, unsafe_in_a_line)
}

/// `text` for several lines: as [`line`](fn@line), but line feeds and tabs stay.
pub fn lines(text: &str) -> Cow<'_, str> {
    visible(text, |c| !matches!(c, '\n' | '\t') && unsafe_in_a_line(c))
}

fn visible(text: &str, replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&replaced) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !replaced(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

/// Controls (C0, DEL, C1), and the invisible characters that reorder or hide text (Unicode TR 36).
fn unsafe_in_a_line(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_can_steer_the_terminal() {
        let hostile = "a\u{1b}[2Jb\u{9b}31mc\u{7}d\re\u{202e}f\u{200b}g\u{7f}\0";
        let shown = line(hostile);
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{9b}31mc\\u{7}d\\re\\u{202e}f\\u{200b}g\\u{7f}\\u{0}");
        assert!(!shown.chars().any(unsafe_in_a_line));
    }

    #[test]
    fn a_line_stays_one_line_and_lines_stay_lines() {
        assert_eq!(line("one\ntwo\tthree"), "one\\ntwo\\tthree");
        assert_eq!(lines("one\ntwo\tthree\r"), "one\ntwo\tthree\\r");
    }

    #[test]
    fn ordinary_text_is_not_copied() {
        assert!(matches!(line("grüße, 世界 — ok"), Cow::Borrowed(_)));
    }
}
