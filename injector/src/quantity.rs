//! Quantities of Kubernetes: `100m`, `1.5`, `64Mi`.

/// How much a quantity is, in its base unit; nothing if it is none. Exponents (`1e3`) are not taken.
pub fn amount(text: &str) -> Option<f64> {
    let (number, suffix) = match text.find(|letter: char| letter.is_ascii_alphabetic()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let factor = match suffix {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "Pi" => 1024.0 * 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let plain = number.chars().all(|letter| letter.is_ascii_digit() || letter == '.');
    number.parse::<f64>().ok().filter(|_| plain).map(|number| number * factor)
}
