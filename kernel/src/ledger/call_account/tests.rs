use proptest::prelude::*;

use super::*;
use crate::ledger::Rates;

const DOLLAR: u64 = 1_000_000_000;

fn price(input: u64, output: u64) -> Option<Price> {
    let usual = Rates { input, output, cache_read: input / 2, cache_write: input + input / 4 };
    Some(Price { usual, long_prompt: None })
}

fn quote(input_tokens: u64, max_output_tokens: u64) -> CallQuote {
    CallQuote { input_tokens, max_output_tokens, price: price(DOLLAR, 4 * DOLLAR) }
}

fn tokens(tokens: u64) -> CallLimits {
    CallLimits { tokens: Some(tokens), nano_usd: None }
}

fn job(number: u128) -> RunId {
    RunId(uuid::Uuid::from_u128(number))
}

#[track_caller]
fn check(limits: CallLimits, input: u64, output: u64, expected: Option<u64>) {
    let account = CallAccount::new(limits, Amounts::default());
    let found = match account.room_for(None, &quote(input, output), "m") {
        CallRoom::Fits { max_output_tokens } => Some(max_output_tokens),
        CallRoom::Short(_) => None,
        other => panic!("{other:?}"),
    };
    assert_eq!(found, expected, "{limits:?} {input} {output}");
}

#[test]
fn an_answer_is_lowered_to_what_fits_and_not_below_what_is_useful() {
    check(tokens(3_000), 1_000, 2_000, Some(2_000));
    check(tokens(2_999), 1_000, 2_000, Some(1_999));
    check(tokens(1_000 + OUTPUT_TOKENS_MIN), 1_000, 2_000, Some(OUTPUT_TOKENS_MIN));
    check(tokens(999 + OUTPUT_TOKENS_MIN), 1_000, 2_000, None);
    check(tokens(1_010), 1_000, 10, Some(10));
    check(tokens(1_009), 1_000, 10, None);
    // 1,000 tokens of input cost 1.25 million nano dollars if the provider writes them to its cache.
    let usd = |nano_usd| CallLimits { tokens: None, nano_usd: Some(nano_usd) };
    check(usd(1_250_000 + 2_000 * 4_000), 1_000, 2_000, Some(2_000));
    check(usd(1_250_000 + 2_000 * 4_000 - 1), 1_000, 2_000, Some(1_999));
    check(usd(1_249_999), 1_000, 2_000, None);
}

#[test]
fn a_call_waits_for_what_others_may_return_and_not_for_what_nobody_has() {
    let mut account = CallAccount::new(tokens(5_000), Amounts::default());
    account.reserve(1, None, quote(1_000, 2_000).amounts(2_000));
    assert_eq!(
        account.room_for(None, &quote(1_000, 2_000), "m"),
        CallRoom::Wait,
        "a whole answer may fit later"
    );
    assert!(matches!(account.room_for(None, &quote(6_000, 2_000), "m"), CallRoom::Short(_)));
    account.settle(1, Amounts { tokens: 1_100, nano_usd: 0 });
    assert_eq!(
        account.room_for(None, &quote(1_000, 2_000), "m"),
        CallRoom::Fits { max_output_tokens: 2_000 }
    );
    account.settle(1, Amounts { tokens: 9_000, nano_usd: 0 });
    assert_eq!(account.used().tokens, 1_100, "a call is settled once");
}

#[test]
fn a_limit_on_money_needs_a_price_and_a_limit_on_tokens_does_not() {
    let unknown = CallQuote { price: None, ..quote(10, 10) };
    let usd = CallLimits { tokens: None, nano_usd: Some(DOLLAR) };
    assert_eq!(CallAccount::new(usd, Amounts::default()).room_for(None, &unknown, "m"), CallRoom::Unpriced);
    let by_tokens = CallAccount::new(tokens(20), Amounts::default());
    assert_eq!(by_tokens.room_for(None, &unknown, "m"), CallRoom::Fits { max_output_tokens: 10 });
}

#[test]
fn the_smaller_of_budget_and_balance_counts_and_is_named() {
    let run = CallAccount::new(tokens(3_000), Amounts::default());
    let client = CallAccount::new(tokens(2_500), Amounts::default());
    let room = |client, quote| room_of_both(Some((job(1), &run)), client, &quote, "m");
    assert_eq!(room(&client, quote(1_000, 2_000)), CallRoom::Fits { max_output_tokens: 1_500 });
    let CallRoom::Short(short) = room(&client, quote(2_400, 2_000)) else {
        panic!("the balance is too small")
    };
    assert_eq!((short.of_client, short.left.tokens), (true, Some(2_500)));
    let CallRoom::Short(short) = room(&client, quote(2_900, 2_000)) else { panic!("both are too small") };
    assert!(!short.of_client, "the budget comes first: a person of the run can raise it");
}

#[test]
fn what_a_contract_sets_aside_is_for_its_run_alone_until_it_ends() {
    let mut client = CallAccount::new(tokens(10_000), Amounts::default());
    let of = |tokens| Amounts { tokens, nano_usd: 0 };
    client.set_aside(job(1), of(6_000), of(0));
    let room = |client: &CallAccount, run| client.room_for(run, &quote(1_000, 4_000), "m");
    let fits = |max_output_tokens| CallRoom::Fits { max_output_tokens };
    assert_eq!(client.left(), tokens(4_000));
    assert_eq!(room(&client, None), fits(3_000), "lowered to what is free");
    assert_eq!(room(&client, Some(job(1))), fits(4_000));
    // A call of the contract takes nothing of what is free.
    client.reserve(1, Some(job(1)), of(5_000));
    assert_eq!((client.left(), client.aside()), (tokens(4_000), of(1_000)));
    // Others wait for calls, and never for what is left of a contract.
    let large = client.room_for(None, &quote(4_000, 4_000), "m");
    assert!(
        matches!(large, CallRoom::Short(Shortfall { left: CallLimits { tokens: Some(4_000), .. }, .. })),
        "{large:?}"
    );
    client.settle(1, of(2_000));
    assert_eq!((client.left(), client.aside(), client.used()), (tokens(4_000), of(4_000), of(2_000)));
    // Beyond the contract, what is free pays.
    client.reserve(2, Some(job(1)), of(5_000));
    client.settle(2, of(5_000));
    assert_eq!((client.left(), client.aside()), (tokens(3_000), of(0)));
    client.set_aside(job(2), of(1_000), of(400));
    assert_eq!(client.left(), tokens(2_400));
    client.keep_contracts(|_| false);
    assert_eq!(client.left(), tokens(3_000));
}

#[derive(Debug, Clone)]
enum Happens {
    Asks {
        input: u64,
        output: u64,
    },
    /// A call ends after this share of its reservation, in thousandths.
    Ends {
        nth: usize,
        share: u64,
    },
    Raised(u64),
    /// The process dies: reservations count as used.
    Dies,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => (0..3_000u64, 1..4_000u64).prop_map(|(input, output)| Happens::Asks { input, output }),
        4 => (0..40usize, 0..=1_000u64).prop_map(|(nth, share)| Happens::Ends { nth, share }),
        1 => (0..20_000u64).prop_map(Happens::Raised),
        1 => Just(Happens::Dies),
    ]
}

proptest! {
    #[test]
    fn used_and_reserved_are_never_more_than_the_limits_whatever_the_order(
        limits in (0..60_000u64, 0..200_000_000u64),
        all in proptest::collection::vec(happens(), 0..200),
    ) {
        let limits = CallLimits { tokens: Some(limits.0), nano_usd: Some(limits.1) };
        let mut run = CallAccount::new(limits, Amounts::default());
        let mut client = CallAccount::new(CallLimits { tokens: Some(100_000), nano_usd: None }, Amounts::default());
        let (mut number, mut open, mut recorded) = (0u64, Vec::new(), Amounts::default());
        for one in all {
            match one {
                Happens::Asks { input, output } => {
                    let quote = quote(input, output);
                    match room_of_both(Some((job(1), &run)), &client, &quote, "m") {
                        CallRoom::Fits { max_output_tokens } => {
                            prop_assert!(max_output_tokens <= output);
                            prop_assert!(max_output_tokens >= output.min(OUTPUT_TOKENS_MIN));
                            number += 1;
                            let amounts = quote.amounts(max_output_tokens);
                            run.reserve(number, None, amounts);
                            client.reserve(number, Some(job(1)), amounts);
                            recorded = recorded.plus(amounts);
                            open.push((number, amounts));
                        }
                        CallRoom::Wait => prop_assert!(!open.is_empty(), "somebody may return something"),
                        CallRoom::Short(short) => {
                            let left = if short.of_client { client.limits().less(client.used()) } else { run.limits().less(run.used()) };
                            prop_assert!(!left.hold(quote.least()), "the call would fit: {short:?}");
                        }
                        CallRoom::Unpriced => prop_assert!(false, "every call has a price"),
                    }
                }
                Happens::Ends { nth, share } if !open.is_empty() => {
                    let (call, held): (u64, Amounts) = open.swap_remove(nth % open.len());
                    let part = |all: u64| all * share / 1_000;
                    let used = Amounts { tokens: part(held.tokens), nano_usd: part(held.nano_usd) };
                    run.settle(call, used);
                    client.settle(call, used);
                    recorded = recorded.minus(held).plus(used);
                }
                Happens::Ends { .. } => {}
                Happens::Raised(by) => {
                    run.set_limits(run.limits().raised(Amounts { tokens: by, nano_usd: by * 1_000 }));
                }
                Happens::Dies => {
                    open.clear();
                    run = CallAccount::new(run.limits(), recorded);
                    client = CallAccount::new(client.limits(), recorded);
                }
            }
            prop_assert!(run.limits().hold(run.used().plus(run.held())));
            prop_assert!(client.limits().hold(client.used().plus(client.held())));
            prop_assert_eq!(run.used().plus(run.held()), recorded, "the records say the same");
        }
    }
}
