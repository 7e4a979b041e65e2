//! Contracts: what an output must be before its node counts as executed.
