//! Lexical rank: how much a text has to do with a goal.

/// Words that every goal may have.
const COMMON: [&str; 12] =
    ["and", "are", "for", "from", "how", "that", "the", "this", "what", "where", "which", "with"];

/// The words of a text, in lower case, sorted, each once. Words of one or two letters and common ones say nothing.
pub fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 2)
        .map(str::to_lowercase)
        .filter(|word| !COMMON.contains(&word.as_str()))
        .collect();
    words.sort();
    words.dedup();
    words
}

/// Number of words of a text among `wanted`, which [`words`] has made.
///
/// ```
/// use ostler_kernel::policy::{shared_words, words};
/// assert_eq!(shared_words(&words("Count the notes"), "fs.list: lists notes"), 1);
/// ```
pub fn shared_words(wanted: &[String], text: &str) -> usize {
    words(text).iter().filter(|word| wanted.binary_search(word).is_ok()).count()
}
