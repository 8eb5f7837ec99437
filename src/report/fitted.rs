//! Tables that are wider than the terminal: their texts go on in the next line, or their rows do, and no text is truncated.

use std::iter;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The columns of the terminal; 0 if tables may have any width.
static COLUMNS: AtomicUsize = AtomicUsize::new(0);

/// A text is not made narrower than this: most names of files and lists of three GPUs can be read in it.
const NARROWEST: usize = 24;

/// The indentation of the lines with which a row goes on.
pub(super) const DEEPER: usize = 2;

/// Fits the tables in a terminal of this width from now on.
pub(crate) fn fit(columns: usize) {
    COLUMNS.store(columns, Ordering::Relaxed);
}

/// The columns that a table has, if there is a terminal.
pub(super) fn limit() -> Option<usize> {
    Some(COLUMNS.load(Ordering::Relaxed)).filter(|&columns| columns > 0)
}

/// The columns in each line of a row. Texts become narrower so that all columns, each after two spaces, fit in `limit`.
/// If that is not enough, texts keep their width, and rows go on in further lines.
pub(super) fn fitted(widths: &mut [usize], is_text: impl Fn(usize) -> bool, limit: usize) -> Vec<Range<usize>> {
    let mut narrower = widths.to_vec();
    if narrow(&mut narrower, &is_text, limit) {
        widths.copy_from_slice(&narrower);
        return iter::once(0..widths.len()).collect();
    }
    let (mut lines, mut start, mut used) = (Vec::new(), 0, 0);
    for (column, width) in widths.iter_mut().enumerate() {
        if is_text(column) {
            *width = (*width).min(limit.saturating_sub(2 + DEEPER));
        }
        if used + *width + 2 > limit && column > start {
            lines.push(start..column);
            (start, used) = (column, DEEPER);
        }
        used += *width + 2;
    }
    lines.push(start..widths.len());
    lines
}

/// Makes the widest texts narrower. Whether all columns fit then.
fn narrow(widths: &mut [usize], is_text: impl Fn(usize) -> bool, limit: usize) -> bool {
    while widths.iter().map(|width| width + 2).sum::<usize>() > limit {
        let texts = widths.iter_mut().enumerate().filter(|(column, width)| is_text(*column) && **width > NARROWEST);
        let Some((_, widest)) = texts.max_by_key(|(_, width)| **width) else { return false };
        *widest -= 1;
    }
    true
}

/// The lines of a cell of this width. They end behind a word, such as an option, or where a path or a name has a joint.
pub(super) fn wrapped(cell: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), Vec::new());
    for letter in cell.chars() {
        if line.len() >= width.max(1) {
            // One at the begin would leave a line of one letter.
            let last = |joints: &str| {
                line.iter().rposition(|letter: &char| joints.contains(*letter)).filter(|&joint| joint > 0)
            };
            let joint = last(" ").or_else(|| last("/,_-"));
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
        assert!(fitted(&mut widths, |column| column % 2 == 0, 80).into_iter().eq(iter::once(0..4)));
        assert_eq!(widths, [29, 10, 28, 5]);
    }

    #[test]
    fn rows_go_on_in_further_lines_if_texts_would_be_too_narrow() {
        let mut widths = [40, 10, 10, 10, 10, 10, 200];
        assert_eq!(fitted(&mut widths, |column| column % 6 == 0, 80), [0..4, 4..6, 6..7]);
        assert_eq!(widths, [40, 10, 10, 10, 10, 10, 76]);
        let mut numbers = [50, 50];
        assert_eq!(fitted(&mut numbers, |_| false, 80), [0..1, 1..2]);
        assert_eq!(numbers, [50, 50]);
    }

    #[test]
    fn every_width_of_a_terminal_has_all_columns_once() {
        for limit in 0..300 {
            let mut widths = [40, 10, 12, 90, 3];
            let lines = fitted(&mut widths, |column| column % 3 == 0, limit);
            assert!(lines.iter().cloned().flatten().eq(0..5), "{limit}: {lines:?}");
            let line = |line: &Range<usize>| widths[line.clone()].iter().map(|width| width + 2).sum::<usize>();
            assert!(
                limit < 44 || lines.iter().enumerate().all(|(number, it)| line(it) + DEEPER * number.min(1) <= limit)
            );
        }
    }

    #[test]
    fn no_text_is_truncated() {
        assert_eq!(wrapped("gfx90a gfx942 gfx1100", 14), ["gfx90a gfx942", "gfx1100"]);
        assert_eq!(wrapped("lib/rocblas/library", 8), ["lib/", "rocblas/", "library"]);
        assert_eq!(wrapped("a tree; give --from", 15), ["a tree; give", "--from"]);
        assert_eq!(wrapped("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrapped("_abc_def", 4), ["_abc", "_def"]);
        assert_eq!(wrapped("", 3), [""]);
    }
}
