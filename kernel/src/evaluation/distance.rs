//! Distance between evaluations, and nearest neighbors.

use std::cmp::Ordering;

use super::{Scores, Weights};

/// Weighted Euclidean distance of two evaluations, in millionths, rounded down (Agent Scheduler paper, definition 14). Uses
/// only dimensions known of both, with the weights rescaled to them; `None` if no such dimension has a weight.
///  
/// ```
/// use ostler_kernel::evaluation::{Scores, Weights, distance};
/// let one = Scores { quality: None, adherence: None, speed: 1_000, cost: 1_000, errors: 1_000, revisions: 1_000 };
/// assert_eq!(distance(&one, &Scores { speed: 0, cost: 0, errors: 0, revisions: 0, ..one }, &Weights::DEFAULT), Some(1_000_000));
/// ```
pub fn distance(one: &Scores, other: &Scores, weights: &Weights) -> Option<u32> {
    let pairs = one.known().into_iter().zip(other.known()).zip(weights.pm());
    let (mut squares, mut counted) = (0u64, 0u64);
    for ((one, other), weight) in pairs {
        if let (Some(one), Some(other)) = (one, other) {
            let apart = u64::from(one.abs_diff(other));
            squares += u64::from(weight) * apart * apart;
            counted += u64::from(weight);
        }
    }
    // A score difference is in 10^-3 and its square in 10^-6. Weights divide out. Times 10^6 gives 10^-12, whose root is in
    // 10^-6.
    (counted > 0).then(|| (squares * 1_000_000 / counted).isqrt() as u32)
}

/// An evaluated item and its distance from a reference point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor<T> {
    /// The item.
    pub id: T,
    /// Distance in millionths.
    pub distance_micro: u32,
}

/// The `most` nearest of `others`, nearest first, ties by id. Items without a common dimension are left out.
pub fn nearest<T: Ord>(
    aim: &Scores,
    others: impl IntoIterator<Item = (T, Scores)>,
    weights: &Weights,
    most: usize,
) -> Vec<Neighbor<T>> {
    let near = others.into_iter().filter_map(|(id, scores)| {
        let distance_micro = distance(aim, &scores, weights)?;
        Some(Neighbor { id, distance_micro })
    });
    let mut near: Vec<Neighbor<T>> = near.collect();
    let order = |one: &Neighbor<T>, other: &Neighbor<T>| -> Ordering {
        (one.distance_micro, &one.id).cmp(&(other.distance_micro, &other.id))
    };
    near.sort_by(order);
    near.truncate(most);
    near
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scores([quality, adherence, speed, cost, errors, revisions]: [u16; 6]) -> Scores {
        Scores { quality: Some(quality), adherence: Some(adherence), speed, cost, errors, revisions }
    }

    #[test]
    fn the_agents_of_the_paper_are_so_far_apart() {
        let (web, legal) = (scores([870, 920, 780, 850, 950, 880]), scores([910, 950, 650, 720, 880, 800]));
        let security = scores([830, 890, 820, 790, 910, 850]);
        // sqrt(.25*.04^2 + .2*.03^2 + .15*.13^2 + .15*.13^2 + .15*.07^2 + .1*.08^2)
        assert_eq!(distance(&web, &legal, &Weights::DEFAULT), Some(83_815));
        let agents = || [("legal", legal), ("security", security), ("web", web)];
        let near = nearest(&web, agents(), &Weights::DEFAULT, 2);
        assert_eq!(near.iter().map(|near| near.id).collect::<Vec<_>>(), ["web", "security"]);
        assert_eq!(near[0].distance_micro, 0);
    }

    #[test]
    fn of_those_equally_near_the_name_decides_and_who_cannot_be_compared_is_left_out() {
        let aim = scores([500; 6]);
        let unknown = Scores { quality: None, ..aim };
        let others = || [("b", scores([400; 6])), ("a", scores([600; 6])), ("c", unknown)];
        let names = |weights: &Weights, most: usize| -> Vec<&str> {
            nearest(&aim, others(), weights, most).iter().map(|near| near.id).collect()
        };
        assert_eq!(names(&Weights::DEFAULT, 9), ["c", "a", "b"]);
        assert_eq!(names(&Weights::DEFAULT, 1), ["c"]);
        let only_quality = Weights::new([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap();
        assert_eq!(names(&only_quality, 9), ["a", "b"]);
    }

    proptest! {
        #[test]
        fn it_is_a_distance(vectors in proptest::array::uniform3(proptest::array::uniform6(0u16..=1_000))) {
            let [one, other, third] = vectors.map(scores);
            let apart = |one: &Scores, other: &Scores| distance(one, other, &Weights::SECURITY).unwrap();
            prop_assert_eq!(apart(&one, &one), 0);
            prop_assert_eq!(apart(&one, &other), apart(&other, &one));
            prop_assert!(apart(&one, &third) <= apart(&one, &other) + apart(&other, &third) + 2);
            prop_assert!(apart(&one, &other) <= 1_000_000);
        }
    }
}
