//! Challenges: texts that a proof must contain, so that it holds for this process, for a moment, and once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ostler_kernel::lineage;
use ring::rand::{SecureRandom, SystemRandom};

use super::keys::to_hex;

/// How long a challenge may be answered: a person types nothing in between.
const AGE_MAX: Duration = Duration::from_secs(60);

/// Redeemed challenges to remember. Only valid proofs are remembered, so others cannot fill the table.
pub(crate) const REDEEMED_MAX: usize = 4_096;

/// Issues challenges without keeping them: each carries its time and a keyed digest. Only redeemed ones are remembered, until they
/// would be too old anyway.
pub(crate) struct Challenges {
    secret: [u8; 32],
    started: Instant,
    redeemed: Mutex<BTreeMap<String, Duration>>,
}

impl Challenges {
    pub(crate) fn new() -> Challenges {
        Challenges { secret: random(), started: Instant::now(), redeemed: Mutex::default() }
    }

    pub(crate) fn issue(&self) -> String {
        let random: [u8; 32] = random();
        self.issued_at(self.started.elapsed(), &random[..16])
    }

    fn issued_at(&self, at: Duration, random: &[u8]) -> String {
        let head = format!("{}-{}", at.as_millis(), to_hex(random));
        format!("{head}-{}", self.seal(&head))
    }

    fn seal(&self, head: &str) -> String {
        to_hex(&lineage::hash("aos/challenge/1", &[&self.secret, head.as_bytes()]).0)
    }

    /// Uses a challenge up.
    pub(crate) fn redeem(&self, challenge: &str) -> Result<(), &'static str> {
        self.redeem_at(challenge, self.started.elapsed())
    }

    fn redeem_at(&self, challenge: &str, now: Duration) -> Result<(), &'static str> {
        let issued = challenge.rsplit_once('-').filter(|(head, seal)| self.seal(head) == *seal);
        let issued = issued.and_then(|(head, _)| head.split_once('-')).and_then(|(at, _)| at.parse().ok());
        let Some(issued) = issued.map(Duration::from_millis) else {
            return Err("the proof is for another process: send the request again");
        };
        if now.saturating_sub(issued) > AGE_MAX {
            return Err("the proof is too old: send the request again");
        }
        let mut redeemed = self.redeemed.lock().unwrap_or_else(PoisonError::into_inner);
        redeemed.retain(|_, issued| now.saturating_sub(*issued) <= AGE_MAX);
        if redeemed.len() >= REDEEMED_MAX {
            return Err("too many decisions in a minute: send the request again later");
        }
        match redeemed.insert(challenge.to_owned(), issued) {
            None => Ok(()),
            Some(_) => Err("the proof was used before: send the request again"),
        }
    }
}

pub(crate) fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_holds_once_for_a_moment_and_here() {
        let (here, there) = (Challenges::new(), Challenges::new());
        let at = Duration::from_secs;
        let one = here.issued_at(at(5), &[1]);
        assert!(there.redeem_at(&one, at(5)).is_err(), "another process");
        assert!(here.redeem_at(&one, at(5) + AGE_MAX + at(1)).is_err(), "too old");
        assert_eq!(here.redeem_at(&one, at(6)), Ok(()));
        assert!(here.redeem_at(&one, at(6)).is_err(), "once");
        for wrong in ["", "-", "5", &one[1..], &format!("6{}", &one[1..])] {
            assert!(here.redeem_at(wrong, at(6)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn redeemed_challenges_are_forgotten_when_too_old_and_limited_before() {
        let challenges = Challenges::new();
        let redeem =
            |n: usize, at: Duration| challenges.redeem_at(&challenges.issued_at(at, &n.to_le_bytes()), at);
        for n in 0..REDEEMED_MAX {
            assert_eq!(redeem(n, Duration::ZERO), Ok(()));
        }
        assert!(redeem(REDEEMED_MAX, AGE_MAX).is_err());
        assert_eq!(redeem(REDEEMED_MAX, AGE_MAX + Duration::from_millis(1)), Ok(()));
    }
}
