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
