//! The rows of the table.

mod answers;
mod requests;

pub use answers::answers;
pub use requests::requests;

use crate::wire::row::Row;

/// All rows about HTTP/1.
pub fn all() -> Vec<Row> {
    let mut rows = requests();
    rows.extend(answers());
    rows
}

/// Field lines, that many.
fn numbered(count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|number| format!("x-{number}: y\r\n")).collect();
    lines.concat()
}
