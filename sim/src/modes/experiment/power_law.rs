//! A least-squares fit.

/// Exponent of the power law nearest to the points: the slope of a line through their logarithms. NaN for fewer than two
/// different abscissas.
pub fn exponent(points: &[(f64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| logs.iter().map(part).sum::<f64>() / count;
    let (x_mean, y_mean) = (mean(|log| log.0), mean(|log| log.1));
    let products: f64 = logs.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let squares: f64 = logs.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    products / squares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        let cubes: Vec<(f64, f64)> =
            (1..20_i32).map(|x| (f64::from(x), 7.0 * f64::from(x).powi(3))).collect();
        assert!((exponent(&cubes) - 3.0).abs() < 1e-9);
        assert!(exponent(&cubes[..1]).is_nan());
    }
}
