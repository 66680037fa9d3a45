//! One figure: both sides of every run, how they are compared, and what is aimed at.
//!
//! The sides of one run are compared with each other, never those of different runs: what slows the machine down
//! for a while slows both. The median of the comparisons is held against the aim; the least and the greatest say
//! how far to believe it.

use std::fmt::Write as _;

/// What was measured, and what it is measured by.
#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) runs: Vec<Run>,
    pub(crate) by: Comparison,
    /// The most that the comparison's median may be.
    pub(crate) aim: f64,
}

/// Both sides of one run, in the figure's unit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) ours: f64,
    pub(crate) theirs: Option<f64>,
}

/// How the two sides of a run become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Ours divided by theirs.
    Ratio,
    /// What ours takes beyond theirs.
    Beyond,
    /// Ours by itself.
    Alone,
}

/// The least, the middle and the greatest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Figure {
    fn compared(&self) -> Spread {
        spread(self.runs.iter().map(|Run { ours, theirs }| match (self.by, theirs) {
            (Comparison::Ratio, Some(theirs)) => ours / theirs,
            (Comparison::Beyond, Some(theirs)) => ours - theirs,
            _ => *ours,
        }))
    }

    fn is_met(&self) -> bool {
        self.compared().median <= self.aim
    }

    fn cells(&self) -> [String; 7] {
        let unit = self.unit;
        let side = |number: f64| format!("{} {unit}", rounded(number));
        let ours = side(spread(self.runs.iter().map(|run| run.ours)).median);
        let theirs: Vec<f64> = self.runs.iter().filter_map(|run| run.theirs).collect();
        let theirs = if theirs.is_empty() { "-".to_owned() } else { side(spread(theirs).median) };
        let unit = if self.by == Comparison::Ratio { String::new() } else { format!(" {unit}") };
        let Spread { min, median, max } = self.compared();
        [
            self.name.clone(),
            ours,
            theirs,
            format!("{}{unit}", rounded(median)),
            format!("<= {}{unit}", rounded(self.aim)),
            if self.is_met() { "met".to_owned() } else { "MISSED".to_owned() },
            format!("{} .. {}", rounded(min), rounded(max)),
        ]
    }
}

const HEAD: [&str; 7] = ["figure", "ours", "by hand", "compared", "aim", "", "spread"];

/// All figures, one a line, with medians, aims and spreads.
pub(crate) fn table(figures: &[Figure]) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(figures.iter().map(Figure::cells));
    let widths: [usize; 7] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &rows {
        let mut line = format!("{:width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            // Writing to a string cannot fail.
            let _ = write!(line, "  {cell:>width$}");
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}

fn spread(numbers: impl IntoIterator<Item = f64>) -> Spread {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    let at = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
    let (half, last) = (numbers.len() / 2, numbers.len().saturating_sub(1));
    let median =
        if numbers.len() % 2 == 1 { at(half) } else { f64::midpoint(at(half.wrapping_sub(1)), at(half)) };
    Spread { min: at(0), median, max: at(last) }
}

/// To three digits or so: more would be noise.
fn rounded(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(by: Comparison, runs: &[(f64, f64)], aim: f64) -> Figure {
        let runs = runs.iter().map(|(ours, theirs)| Run { ours: *ours, theirs: Some(*theirs) }).collect();
        Figure { name: "f".to_owned(), unit: "s", runs, by, aim }
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(spread([3.0, 1.0, 2.0]), Spread { min: 1.0, median: 2.0, max: 3.0 });
        assert_eq!(spread([4.0, 1.0, 2.0, 3.0]), Spread { min: 1.0, median: 2.5, max: 4.0 });
        assert_eq!(spread([7.0]), Spread { min: 7.0, median: 7.0, max: 7.0 });
        assert!(spread([]).median.is_nan());
    }

    #[test]
    fn the_sides_of_one_run_are_compared_with_each_other() {
        // The medians of the sides are equal here; the median of the ratios is not one.
        let slow = figure(Comparison::Ratio, &[(1.0, 2.0), (2.0, 1.0), (3.0, 4.0)], 0.9);
        assert_eq!(slow.compared(), Spread { min: 0.5, median: 0.75, max: 2.0 });
        assert!(slow.is_met());
        let beyond = figure(Comparison::Beyond, &[(105.0, 100.0), (320.0, 300.0), (207.0, 200.0)], 6.0);
        assert_eq!(beyond.compared(), Spread { min: 5.0, median: 7.0, max: 20.0 });
        assert!(!beyond.is_met());
    }

    #[test]
    fn nothing_measured_meets_no_aim() {
        assert!(!figure(Comparison::Ratio, &[], 0.9).is_met());
    }

    #[test]
    fn the_table_says_what_is_met_and_what_is_missed() {
        let text = table(&[
            figure(Comparison::Ratio, &[(1.0, 2.0)], 0.9),
            figure(Comparison::Ratio, &[(3.0, 2.0)], 0.9),
            Figure { runs: vec![Run { ours: 12.34, theirs: None }], ..figure(Comparison::Alone, &[], 20.0) },
        ]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], "f 1.00 s 2.00 s 0.50 <= 0.90 met 0.50 .. 0.50".split(' ').collect::<Vec<_>>());
        assert!(lines[2].contains(&"MISSED"), "{text}");
        assert_eq!(lines[3], "f 12.3 s - 12.3 s <= 20.0 s met 12.3 .. 12.3".split(' ').collect::<Vec<_>>());
    }
}
