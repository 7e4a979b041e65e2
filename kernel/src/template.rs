//! Templates of reports and prompts.
