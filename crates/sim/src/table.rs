//! Text tables, also valid as Markdown.

/// A table; the first row is its head.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    pub fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    /// Adds a row of as many cells.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.rows[0].len(), "as many cells as the head has");
        self.rows.push(cells);
    }

    /// The text, columns aligned.
    pub fn text(&self) -> String {
        let columns = 0..self.rows[0].len();
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = columns.map(width).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(&format_line(&cells));
            if index == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                text.push_str(&format_line(&rule));
            }
        }
        text
    }
}

fn format_line(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// A number with one decimal, two below one; `-` for none.
pub fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "-".to_owned(),
        v if v.is_infinite() => "never".to_owned(),
        v if v.abs() >= 100.0 => format!("{v:.0}"),
        v => format!("{v:.1}"),
    }
}
