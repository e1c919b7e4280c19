//! The model of how large the local side is when it is whole: told at each update and tick how many endpoints there are, it
//! walks through all that it was told.

use super::fade;

const MEMORY: f64 = 60.0;

#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    looks: Vec<(f64, usize)>,
}

impl Extent {
    pub(crate) fn look(&mut self, present: usize, now: f64) {
        self.looks.push((now, present));
    }

    /// The endpoints that count as the zone's, present or missing.
    pub(crate) fn expected(&self) -> f64 {
        let (mut whole, mut lost, mut present, mut at) = (0.0_f64, false, 0.0, 0.0);
        for (now, count) in &self.looks {
            if present > 0.0 && whole > present {
                whole = present + (whole - present) * fade(now - at, MEMORY);
                lost = lost && whole - present >= 0.5;
            }
            let count = *count as f64;
            lost = lost || (present > 0.0 && count < 0.5);
            whole = whole.max(count);
            lost = lost && whole - count >= 0.5;
            (present, at) = (count, *now);
        }
        if lost { whole } else { present }
    }
}
