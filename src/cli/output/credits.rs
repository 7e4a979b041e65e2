//! Texts about clients without credits.

use ostler_actors::ATTEMPT_CREDITS;
use ostler_kernel::client_terms::{CREDITS_MAX, REFERENCE_CREDITS};
use ostler_server::wire::ClientRow;

use crate::cli::output::hints;

/// Credits to suggest for a deposit: the debt plus one thousand, rounded up to thousands.
pub(crate) fn deposit(left: Option<i64>) -> i64 {
    let debt = left.unwrap_or(0).min(0).unsigned_abs();
    let wanted =
        (debt.saturating_add(REFERENCE_CREDITS.unsigned_abs())).div_ceil(1_000).saturating_mul(1_000);
    i64::try_from(wanted).unwrap_or(CREDITS_MAX).min(CREDITS_MAX)
}

/// Returns whether lack of credits keeps attempts of a client from starting. Without a running scheduler no client
/// is marked as parked, so the balance is compared with the reservation of one attempt.
pub(crate) fn is_short(line: &ClientRow) -> bool {
    line.parked || line.left.is_some_and(|left| left < ATTEMPT_CREDITS.cast_signed())
}

/// Text for a run without credits, with the command for a deposit.
pub(crate) fn waits(line: &ClientRow) -> String {
    let ClientRow { client, left, .. } = line;
    format!("waits for credits of client {client}: {}", hints::deposit(client.as_str(), deposit(*left)))
}

/// Text for a client after its credits were used up, given the current balance.
pub(crate) fn used_up(client: &str, line: Option<&ClientRow>) -> String {
    let left = line.and_then(|line| line.left);
    let deposit = hints::deposit(client, deposit(left));
    match (line, left) {
        (Some(line), Some(left)) if !is_short(line) => {
            format!("client {client}: credits were used up; {left} are available now ({deposit} adds more)")
        }
        _ => format!("client {client}: credits are used up, no further attempt starts; {deposit}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn line(left: i64, parked: bool) -> ClientRow {
        let line = serde_json::json!({
            "client": "acme", "tier": "marketplace", "weight": 10, "weight_served": 10, "weight_from": "credits",
            "deposited": 100, "spent": 0, "reserved": 0, "left": left, "parked": parked, "running": 0, "queued": 0,
            "charged": 0, "lag": 0,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn a_deposit_that_is_advised_pays_the_debt_and_a_thousand_more() {
        for (left, advised) in
            [(None, 1_000), (Some(99), 1_000), (Some(0), 1_000), (Some(-1), 2_000), (Some(-1_000), 2_000)]
        {
            assert_eq!(deposit(left), advised, "{left:?}");
        }
        assert_eq!(deposit(Some(-12_345)), 14_000);
        assert_eq!(deposit(Some(i64::MIN)), CREDITS_MAX);
    }

    #[test]
    fn what_was_used_up_is_told_by_what_is_left_now() {
        let text = |line: Option<&ClientRow>| used_up("acme", line);
        let short = "client acme: credits are used up, no further attempt starts; ostler credit";
        assert_eq!(text(None), format!("{short} acme +1000"));
        assert_eq!(text(Some(&line(-1_500, true))), format!("{short} acme +3000"));
        assert_eq!(text(Some(&line(60, false))), format!("{short} acme +1000"));
        assert_eq!(
            text(Some(&line(791, false))),
            "client acme: credits were used up; 791 are available now (ostler credit acme +1000 adds more)"
        );
    }
}
