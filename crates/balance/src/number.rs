//! Arithmetic that the standard library has only with `std`.

/// `e^(−elapsed/tau)`: what is left of a decaying sum. Time that runs backwards counts as no time.
///
/// Between two requests little time passes, and a Padé approximant is exact to 10⁻¹⁰ there, in a fifth of the instructions;
/// `libm` serves the rest. Both give the same bits on every machine.
pub(crate) fn left_after(elapsed: f64, tau: f64) -> f64 {
    let x = elapsed.max(0.0) / tau;
    if x >= 0.5 {
        return libm::exp(-x);
    }
    let square = x * x;
    let even = 1680.0 + square * (180.0 + square);
    let odd = x * (840.0 + 20.0 * square);
    (even - odd) / (even + odd)
}

/// The share that may be used one tick later: closing the gate is slow, 25 % and a hundredth a tick.
pub(crate) fn rise(share: f64) -> f64 {
    (1.25 * share + 0.01).min(1.0)
}

pub(crate) fn sqrt(x: f64) -> f64 {
    libm::sqrt(x)
}

/// The least whole number that is not smaller, at most `u32::MAX`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range of u32 before"
)]
pub(crate) fn ceil(x: f64) -> u32 {
    libm::ceil(x).clamp(0.0, f64::from(u32::MAX)) as u32
}

/// A count of endpoints, as the formulas and events carry it.
pub(crate) fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_approximant_meets_the_exponential() {
        for nanos in [
            0_u32,
            1,
            1_000,
            1_000_000,
            40_000_000,
            300_000_000,
            1_000_000_000,
            2_499_999_999,
            2_500_000_000,
        ] {
            let elapsed = f64::from(nanos) * 1e-9;
            let difference = (left_after(elapsed, 5.0) - libm::exp(-elapsed / 5.0)).abs();
            assert!(difference < 1e-10, "{elapsed} s: off by {difference}");
        }
    }

    #[test]
    fn time_that_runs_backwards_changes_nothing() {
        assert_eq!(left_after(-3.0, 5.0).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn a_share_rises_to_one_and_stays() {
        let ticks = core::iter::successors(Some(0.01), |share| Some(rise(*share)))
            .take_while(|share| *share < 1.0)
            .count();
        assert_eq!(ticks, 14, "from 1 % to all in 14 ticks");
        assert_eq!(rise(1.0).to_bits(), 1.0_f64.to_bits());
    }
}
