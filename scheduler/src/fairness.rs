//! How even shares are.

/// Jain's index of what clients got for their weight: 1 when all got the same, 1/n when one got everything.
///
/// `None` without clients; 1 when nobody got anything.
///
/// ```
/// # use ostler_scheduler::jain;
/// assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
/// assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
/// assert_eq!(jain(&[]), None);
/// ```
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    match shares {
        [] => None,
        _ if squares == 0.0 => Some(1.0),
        _ => Some(sum * sum / (shares.len() as f64 * squares)),
    }
}

/// The least index that shares can have whose greatest and least differ by `spread` and whose mean is `mean`, both in the unit
/// of the shares: T4 of the crate's documentation. It is reached when one half got the least and the other the greatest.
///
/// ```
/// # use ostler_scheduler::{jain, jain_bound};
/// let index = jain(&[90.0, 110.0]).unwrap();
/// assert!((index - jain_bound(20.0, 100.0)).abs() < 1e-12);
/// ```
pub fn jain_bound(spread: f64, mean: f64) -> f64 {
    1.0 / (1.0 + (spread / (2.0 * mean)).powi(2))
}
