//! Tables that are wider than the terminal: their texts go on in the next line, and no text is truncated.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The columns of the terminal; 0 if tables may have any width.
static COLUMNS: AtomicUsize = AtomicUsize::new(0);

/// A text is not made narrower than this.
const NARROWEST: usize = 12;

/// Fits the tables in a terminal of this width from now on.
pub(crate) fn fit(columns: usize) {
    COLUMNS.store(columns, Ordering::Relaxed);
}

/// The columns that a table has, if there is a terminal.
pub(super) fn limit() -> Option<usize> {
    Some(COLUMNS.load(Ordering::Relaxed)).filter(|&columns| columns > 0)
}

/// Makes the widest texts narrower until all columns, each after two spaces, fit in `limit` as far as that is possible.
pub(super) fn narrow(widths: &mut [usize], is_text: impl Fn(usize) -> bool, limit: usize) {
    while widths.iter().map(|width| width + 2).sum::<usize>() > limit {
        let texts = widths.iter_mut().enumerate().filter(|(column, width)| is_text(*column) && **width > NARROWEST);
        let Some((_, widest)) = texts.max_by_key(|(_, width)| **width) else { return };
        *widest -= 1;
    }
}

/// The lines of a cell of this width. They end where words, paths or names have a joint.
pub(super) fn wrapped(cell: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for letter in cell.chars() {
        if line.len() >= width.max(1) {
            let joint = line.iter().rposition(|letter: &char| " /,_-".contains(*letter));
            let rest = line.split_off(joint.map_or(line.len(), |joint| joint + 1));
            lines.push(line.iter().collect::<String>().trim_end().to_owned());
            line = rest;
        }
        line.push(letter);
    }
    lines.push(line.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_share_the_room_and_numbers_keep_theirs() {
        let mut widths = [40, 10, 60, 5];
        narrow(&mut widths, |column| column % 2 == 0, 80);
        assert_eq!(widths, [29, 10, 28, 5]);
        let mut numbers = [50, 50];
        narrow(&mut numbers, |_| false, 80);
        assert_eq!(numbers, [50, 50]);
    }

    #[test]
    fn no_text_is_truncated() {
        assert_eq!(wrapped("gfx90a gfx942 gfx1100", 14), ["gfx90a gfx942", "gfx1100"]);
        assert_eq!(wrapped("lib/rocblas/library", 8), ["lib/", "rocblas/", "library"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
