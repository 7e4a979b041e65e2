//! Prices of model calls, in whole billionths of a US dollar.

/// Tokens that a price is given for.
const TOKENS: u128 = 1_000_000;

/// Prices in billionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Rates of a usual call.
    pub usual: Rates,
    /// Rates of a call with a long prompt, for all of its tokens; `None`: the same.
    pub long_prompt: Option<LongPrompt>,
}

/// Rates of calls with a long prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrompt {
    /// A prompt with more tokens is long.
    pub above: u64,
    /// The rates.
    pub rates: Rates,
}

/// Billionths of a US dollar per million tokens of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}

/// Tokens of a call. `input` includes `cache_read` and `cache_write`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}

impl Price {
    /// Costs nothing.
    pub const FREE: Price =
        Price { usual: Rates { input: 0, output: 0, cache_read: 0, cache_write: 0 }, long_prompt: None };

    /// The cost in billionths of a US dollar, rounded up.
    ///
    /// ```
    /// use ostler_kernel::ledger::{Price, Rates, Tokens};
    /// let dollar = 1_000_000_000;
    /// let usual = Rates { input: dollar, output: 3 * dollar, cache_read: dollar / 2, cache_write: dollar };
    /// let tokens = Tokens { input: 1_000, output: 10, cache_read: 400, cache_write: 0 };
    /// let price = Price { usual, long_prompt: None };
    /// assert_eq!(price.nano_usd(tokens), 600 * 1_000 + 400 * 500 + 10 * 3_000);
    /// ```
    pub fn nano_usd(&self, tokens: Tokens) -> u64 {
        let Tokens { input, output, cache_read, cache_write } = tokens;
        let rates = self.rates(input);
        let plain = input.saturating_sub(cache_read.saturating_add(cache_write));
        let sum = cost(plain, rates.input)
            .saturating_add(cost(output, rates.output))
            .saturating_add(cost(cache_read, rates.cache_read))
            .saturating_add(cost(cache_write, rates.cache_write));
        u64::try_from(sum.div_ceil(TOKENS)).unwrap_or(u64::MAX)
    }

    /// The most that a call with so many tokens can cost, whatever the provider finds in its cache.
    pub fn nano_usd_max(&self, input: u64, output: u64) -> u64 {
        let rates = self.rates(input);
        let dearest = rates.input.max(rates.cache_read).max(rates.cache_write);
        cost(input, dearest)
            .saturating_add(cost(output, rates.output))
            .div_ceil(TOKENS)
            .try_into()
            .unwrap_or(u64::MAX)
    }

    /// The most tokens of an answer that a call with so many tokens of input can have for `nano_usd`; `None` if the input
    /// alone costs more.
    pub fn output_within(&self, input: u64, nano_usd: u64) -> Option<u64> {
        let left = nano_usd.checked_sub(self.nano_usd_max(input, 0))?;
        let rate = self.rates(input).output;
        // The input was rounded up, so the sum never exceeds `nano_usd`.
        (u128::from(left) * TOKENS)
            .checked_div(u128::from(rate))
            .map_or(Some(u64::MAX), |most| u64::try_from(most).ok())
    }

    fn rates(&self, input: u64) -> Rates {
        match self.long_prompt {
            Some(LongPrompt { above, rates }) if input > above => rates,
            _ => self.usual,
        }
    }
}

fn cost(tokens: u64, rate: u64) -> u128 {
    u128::from(tokens) * u128::from(rate)
}
