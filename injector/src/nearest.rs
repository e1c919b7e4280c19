//! What a misspelt key was meant to be.

use api::annotations::{KEYS, Place};

/// The known key that is most like one that is not known, if any is like it.
pub(crate) fn nearest(unknown: &str) -> Option<&'static str> {
    /// Below this, two words only share their prefix.
    const LIKENESS: f64 = 0.75;
    let word = |key: &str| key.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let unknown = word(unknown);
    KEYS.iter()
        .filter(|known| known.place != Place::Written)
        .map(|known| (strsim::jaro_winkler(&word(known.name), &unknown), known.name))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, key)| key)
}
