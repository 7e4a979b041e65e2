//! Fairness of shares.

/// Jain's fairness index of the service per weight of each client: 1 for equal shares, 1/n if one client received all service
/// (Jain, Chiu and Hawe, 1984).
///
/// `None` for no clients; 1 if all shares are 0.
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
