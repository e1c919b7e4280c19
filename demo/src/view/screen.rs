//! A picture cut to the terminal: no line is wider than it, and there are no more than it has.

use unicode_width::UnicodeWidthChar as _;

/// A terminal's size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// What terminals have had for fifty years, where one does not tell.
const USUAL: Size = Size { columns: 80, rows: 24 };

impl Size {
    /// The size of the terminal at standard output, now.
    pub(crate) fn of_terminal() -> Self {
        match rustix::termios::tcgetwinsize(std::io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Self { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            _ => USUAL,
        }
    }
}

/// The lines of a picture that fit. Where there are too many, empty ones go first, then the last ones.
pub(crate) fn fit(picture: &str, size: Size) -> Vec<String> {
    let mut lines: Vec<&str> = picture.lines().collect();
    let mut surplus = lines.len().saturating_sub(size.rows);
    lines.retain(|line| {
        let goes = surplus > 0 && line.is_empty();
        surplus -= usize::from(goes);
        !goes
    });
    lines.into_iter().take(size.rows).map(|line| cut(line, size.columns)).collect()
}

/// As much of a line as is `columns` wide. Codes (`ESC [ ... letter`) have no width and are all kept, so that colours end.
fn cut(line: &str, columns: usize) -> String {
    let mut kept = String::with_capacity(line.len());
    let (mut width, mut in_code) = (0, false);
    for character in line.chars() {
        if in_code || character == '\x1b' {
            in_code = !character.is_ascii_alphabetic();
            kept.push(character);
            continue;
        }
        width += character.width().unwrap_or(0);
        if width <= columns {
            kept.push(character);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_by_what_they_show() {
        let check = |line: &str, columns: usize, wanted: &str| {
            assert_eq!(cut(line, columns), wanted, "{line:?} in {columns}");
        };
        check("zone a", 6, "zone a");
        check("zone a", 4, "zone");
        check("\x1b[31mfault\x1b[0m: all", 5, "\x1b[31mfault\x1b[0m");
        check("\x1b[1;31mfault\x1b[0m", 2, "\x1b[1;31mfa\x1b[0m");
        check("▁▂▃ →", 3, "▁▂▃");
        check("日本語", 5, "日本"); // two columns each
        check("", 0, "");
    }

    #[test]
    fn empty_lines_go_first_then_the_last_ones() {
        let picture = "\ntitle\n\none\ntwo\n\nthree\n";
        let fit = |rows: usize| fit(picture, Size { columns: 80, rows }).join("|");
        assert_eq!(fit(9), "|title||one|two||three");
        assert_eq!(fit(5), "title|one|two||three");
        assert_eq!(fit(3), "title|one|two");
    }
}
