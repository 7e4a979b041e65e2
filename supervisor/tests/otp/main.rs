//! The behaviour of Erlang/OTP's supervisors, case by case; the names are the case ids.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod world;

mod a_starting;
mod abandoned;
mod answers;
mod b_restart_types;
mod c_one_for_one;
mod d_one_for_all;
mod e_rest_for_one;
mod f_window;
mod g_shutdown;
mod h_administration;
mod i_pool;
mod j_escalation;
mod k_ours;
mod kills;
mod panicking_drops;
mod pool_answers;
mod pool_ends;
mod pool_places;
mod pool_turns;
mod storms;
mod traps;
