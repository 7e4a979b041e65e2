//! Weights of the dimensions per domain.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{BEST_PM, Dimension, Scores};
use crate::id::{NAME_RULE, is_name};

/// Domain of agents that declare none.
pub const DOMAIN_DEFAULT: &str = "default";

/// Maximum number of domains.
pub const DOMAINS_MAX: usize = 64;

/// Weights of the six dimensions in thousandths, in the order of [`Dimension::ALL`] (Agent Scheduler paper, definition 14).
/// The sum is 1,000.
///  
/// ```
/// use ostler_kernel::evaluation::{Scores, Weights};
/// let legal = Scores { quality: Some(910), adherence: Some(950), speed: 650, cost: 720, errors: 880, revisions: 800 };
/// assert_eq!(Weights::LEGAL.composite(&legal).unwrap().micro(), 872_500); // the paper prints 0.882
/// assert_eq!(Weights::DEFAULT.composite(&legal).unwrap().micro(), 835_000); // and 0.837
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Weights([u16; 6]);

/// A fault of weights.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum WeightFault {
    /// A weight is not within 0 and 1, or NaN.
    #[error("the weight of {dimension} is {value}, which is not within 0 and 1")]
    OutOfRange {
        /// Dimension of the weight.
        dimension: Dimension,
        /// Rejected value.
        value: f64,
    },
    /// A weight has more than three decimals.
    #[error("the weight of {dimension} is {value}, which has more than three decimals")]
    TooFine {
        /// Dimension of the weight.
        dimension: Dimension,
        /// Rejected value.
        value: f64,
    },
    /// The sum is not 1. Reported only if each weight is valid.
    #[error("the weights add up to {}, not to 1", Milli(*sum_pm))]
    Sum {
        /// The sum in thousandths.
        sum_pm: u32,
    },
}

/// Displays thousandths as a decimal fraction.
struct Milli(u32);

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1_000.0)
    }
}

/// Composite score, exact to a millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Composite(u32);

impl Composite {
    /// The score in millionths.
    pub fn micro(self) -> u32 {
        self.0
    }

    /// The score in thousandths, rounded.
    pub fn pm(self) -> u16 {
        ((self.0 + 500) / 1_000) as u16
    }
}

impl Weights {
    /// The paper's default, also for web testing.
    pub const DEFAULT: Weights = Weights([250, 200, 150, 150, 150, 100]);
    /// The paper's weights for legal analysis.
    pub const LEGAL: Weights = Weights([350, 250, 50, 100, 150, 100]);
    /// The paper's weights for security audits.
    pub const SECURITY: Weights = Weights([300, 200, 100, 100, 200, 100]);
    /// The paper's weights for dashboards.
    pub const DASHBOARD: Weights = Weights([200, 150, 250, 200, 100, 100]);

    /// Weights in the order of [`Dimension::ALL`], each from 0 to 1 with at most three decimals.
    ///  
    /// # Errors
    ///  
    /// All faults.
    pub fn new(shares: [f64; 6]) -> Result<Weights, Vec<WeightFault>> {
        let mut faults = Vec::new();
        let mut weights = [0; 6];
        for ((dimension, value), weight) in Dimension::ALL.into_iter().zip(shares).zip(&mut weights) {
            let thousandths = value * f64::from(BEST_PM);
            if !(0.0..=1.0).contains(&value) {
                faults.push(WeightFault::OutOfRange { dimension, value });
            } else if (thousandths - thousandths.round()).abs() > 1e-6 {
                faults.push(WeightFault::TooFine { dimension, value });
            } else {
                *weight = thousandths.round() as u16;
            }
        }
        let sum_pm = weights.iter().map(|weight| u32::from(*weight)).sum();
        if faults.is_empty() && sum_pm != u32::from(BEST_PM) {
            faults.push(WeightFault::Sum { sum_pm });
        }
        if faults.is_empty() { Ok(Weights(weights)) } else { Err(faults) }
    }

    /// The weights in thousandths, in the order of [`Dimension::ALL`].
    pub fn pm(&self) -> [u16; 6] {
        self.0
    }

    /// Weighted mean of the known scores, with the weights rescaled to them. `None` if no known dimension has a weight.
    pub fn composite(&self, scores: &Scores) -> Option<Composite> {
        let known = self.0.iter().zip(scores.known());
        let known =
            known.filter_map(|(weight, score)| Some((u64::from(*weight), u64::from(score?.min(BEST_PM)))));
        let (weights, sum) =
            known.fold((0, 0), |(weights, sum), (weight, score)| (weights + weight, sum + weight * score));
        (weights > 0).then(|| Composite(((sum * 1_000 + weights / 2) / weights) as u32))
    }
}

/// Weights by domain: the paper's presets and custom ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domains(BTreeMap<String, Weights>);

/// Reasons to reject weights for a domain.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DomainError {
    /// The domain's name is not a valid name.
    #[error("domain {0:?} is not {NAME_RULE}")]
    Name(String),
    /// [`DOMAINS_MAX`] domains exist.
    #[error("there are {0} domains, which is as many as can be")]
    TooMany(usize),
    /// The weights have faults.
    #[error("the weights of domain {domain}: {}", told(faults))]
    Weights {
        /// The domain.
        domain: String,
        /// All faults.
        faults: Vec<WeightFault>,
    },
}

/// A domain without weights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown domain {domain:?}: known domains: {}", .known.join(", "))]
pub struct UnknownDomain {
    /// The unknown domain.
    pub domain: String,
    /// The known domains, sorted.
    pub known: Vec<String>,
}

fn told(faults: &[WeightFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl Default for Domains {
    /// The paper's presets (section 8.5).
    fn default() -> Domains {
        let presets = [
            (DOMAIN_DEFAULT, Weights::DEFAULT),
            ("web-testing", Weights::DEFAULT),
            ("legal", Weights::LEGAL),
            ("security", Weights::SECURITY),
            ("dashboard", Weights::DASHBOARD),
        ];
        Domains(presets.into_iter().map(|(name, weights)| (name.to_owned(), weights)).collect())
    }
}

impl Domains {
    /// Sets the weights of a domain.
    ///  
    /// # Errors
    ///  
    /// [`DomainError`]; the weights are unchanged.
    pub fn set(&mut self, domain: &str, shares: [f64; 6]) -> Result<(), DomainError> {
        if !is_name(domain) {
            return Err(DomainError::Name(domain.to_owned()));
        }
        if self.0.len() >= DOMAINS_MAX && !self.0.contains_key(domain) {
            return Err(DomainError::TooMany(DOMAINS_MAX));
        }
        let named = |faults| DomainError::Weights { domain: domain.to_owned(), faults };
        self.0.insert(domain.to_owned(), Weights::new(shares).map_err(named)?);
        Ok(())
    }

    /// The weights of a domain, if set.
    pub fn get(&self, domain: &str) -> Option<Weights> {
        self.0.get(domain).copied()
    }

    /// The weights of a domain, or [`Weights::DEFAULT`].
    pub fn of(&self, domain: &str) -> Weights {
        self.get(domain).unwrap_or(Weights::DEFAULT)
    }

    /// Checks that the domain, if given, has weights.
    ///  
    /// # Errors
    ///  
    /// The domain has none.
    pub fn check(&self, domain: Option<&str>) -> Result<(), UnknownDomain> {
        match domain.filter(|domain| !self.0.contains_key(*domain)) {
            Some(domain) => {
                let known = self.names().map(str::to_owned).collect();
                Err(UnknownDomain { domain: domain.to_owned(), known })
            }
            None => Ok(()),
        }
    }

    /// All domains, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scores([quality, adherence, speed, cost, errors, revisions]: [u16; 6]) -> Scores {
        Scores { quality: Some(quality), adherence: Some(adherence), speed, cost, errors, revisions }
    }

    const WEB_TESTING: [u16; 6] = [870, 920, 780, 850, 950, 880];
    const LEGAL: [u16; 6] = [910, 950, 650, 720, 880, 800];
    const SECURITY: [u16; 6] = [830, 890, 820, 790, 910, 850];

    /// The vectors of section 9. The paper prints 0.877, 0.882, 0.837 and 0.851; only the first is right, after rounding.
    #[test]
    fn composites_are_what_the_weights_make_of_the_vectors_of_the_paper() {
        let check = |vector: [u16; 6], weights: Weights, micro: u32| {
            assert_eq!(weights.composite(&scores(vector)).map(Composite::micro), Some(micro), "{vector:?}");
        };
        check(WEB_TESTING, Weights::DEFAULT, 876_500);
        check(LEGAL, Weights::LEGAL, 872_500);
        check(LEGAL, Weights::DEFAULT, 835_000);
        check(SECURITY, Weights::DEFAULT, 848_500);
        check(SECURITY, Weights::SECURITY, 855_000);
        check([1_000; 6], Weights::DASHBOARD, 1_000_000);
        check([0; 6], Weights::DASHBOARD, 0);
        assert_eq!(Weights::LEGAL.composite(&scores(LEGAL)).unwrap().pm(), 873);
    }

    #[test]
    fn the_presets_add_up_to_one() {
        let domains = Domains::default();
        for name in domains.names() {
            assert_eq!(
                domains.of(name).pm().iter().map(|weight| u32::from(*weight)).sum::<u32>(),
                1_000,
                "{name}"
            );
        }
        assert_eq!(domains.names().count(), 5);
        assert_eq!(domains.of("cooking"), Weights::DEFAULT);
    }

    #[test]
    fn every_fault_of_weights_is_told() {
        use {Dimension as D, WeightFault as F};
        let check = |shares: [f64; 6], expected: &[WeightFault]| {
            assert_eq!(Weights::new(shares).err().unwrap_or_default(), expected, "{shares:?}");
        };
        check([0.25, 0.2, 0.15, 0.15, 0.15, 0.1], &[]);
        check([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], &[]);
        check([0.0; 6], &[F::Sum { sum_pm: 0 }]);
        check([0.25, 0.2, 0.15, 0.15, 0.15, 0.101], &[F::Sum { sum_pm: 1_001 }]);
        check([0.25, 0.2, 0.15, 0.15, 0.15, 0.099], &[F::Sum { sum_pm: 999 }]);
        let wrong = |dimension, value| F::OutOfRange { dimension, value };
        check([1.1, -0.1, 0.0, 0.0, 0.0, 0.0], &[wrong(D::Quality, 1.1), wrong(D::Adherence, -0.1)]);
        check([0.5, 0.5, f64::INFINITY, 0.0, 0.0, 0.0], &[wrong(D::Speed, f64::INFINITY)]);
        let fine = F::TooFine { dimension: D::Cost, value: 0.1234 };
        check([0.5, 0.0, 0.0, 0.1234, 0.0, -2.0], &[fine, wrong(D::Revisions, -2.0)]);
        assert!(Weights::new([f64::NAN; 6]).unwrap_err().len() == 6);
        assert_eq!(F::Sum { sum_pm: 1_050 }.to_string(), "the weights add up to 1.05, not to 1");
    }

    #[test]
    fn there_are_only_so_many_domains() {
        let mut domains = Domains::default();
        let shares = [0.5, 0.5, 0.0, 0.0, 0.0, 0.0];
        for at in domains.0.len()..DOMAINS_MAX {
            domains.set(&format!("domain-{at}"), shares).unwrap();
        }
        assert_eq!(domains.set("another", shares), Err(DomainError::TooMany(DOMAINS_MAX)));
        assert_eq!(domains.set("legal", shares), Ok(()), "one that is known may change");
        assert_eq!(domains.of("legal").pm()[0], 500);
        assert_eq!(domains.set("a b", shares), Err(DomainError::Name("a b".into())));
        let before = domains.clone();
        assert!(matches!(domains.set("legal", [0.5; 6]), Err(DomainError::Weights { .. })));
        assert_eq!(domains, before);
    }

    #[test]
    fn what_nobody_knows_does_not_count() {
        let only_speed =
            Scores { quality: None, adherence: None, speed: 400, cost: 0, errors: 0, revisions: 0 };
        let quality = Weights::new([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        assert_eq!(quality.composite(&only_speed), None);
        let half = Weights::new([0.5, 0.0, 0.5, 0.0, 0.0, 0.0]).unwrap();
        assert_eq!(half.composite(&only_speed).map(Composite::micro), Some(400_000));
    }

    proptest! {
        #[test]
        fn a_composite_lies_between_the_worst_and_the_best_dimension(vector in proptest::array::uniform6(0u16..=1_000)) {
            let (worst, best) = (vector.iter().min().unwrap(), vector.iter().max().unwrap());
            for weights in [Weights::DEFAULT, Weights::LEGAL, Weights::SECURITY, Weights::DASHBOARD] {
                let micro = weights.composite(&scores(vector)).unwrap().micro();
                prop_assert!(u32::from(*worst) * 1_000 <= micro && micro <= u32::from(*best) * 1_000);
            }
        }
    }
}
