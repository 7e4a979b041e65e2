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

/// How well a text fits words that a model searches for, made by [`words`]: 2 for each word that the text has, 1 for a word that differs
/// from one of the text by its ending.
///
/// ```
/// use ostler_kernel::policy::{fit, words};
/// let wanted = words("events in a calendar");
/// assert_eq!(fit(&wanted, "calendar.add_event: adds an event"), 2 + 1);
/// assert_eq!(fit(&wanted, "mail.send: sends a mail"), 0);
/// ```
pub fn fit(wanted: &[String], text: &str) -> usize {
    let has = words(text);
    let fit = |word: &String| match has.binary_search(word) {
        Ok(_) => 2,
        Err(_) => usize::from(has.iter().any(|other| differ_by_ending(word, other))),
    };
    wanted.iter().map(fit).sum()
}

/// Letters that words have in common at least if their endings are longer than one letter.
const STEM_BYTES_MIN: usize = 4;

fn differ_by_ending(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    long.starts_with(short) && (short.len() >= STEM_BYTES_MIN || long.len() - short.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_may_differ_and_a_short_word_is_no_stem() {
        let fits = |wanted: &str, text: &str| fit(&words(wanted), text);
        assert_eq!(fits("cars", "car.rent"), 1);
        assert_eq!(fits("deploy", "deployment of a service"), 1);
        assert_eq!(fits("who", "the whole page"), 0);
        assert_eq!(fits("in the", "in the house"), 0, "such words say nothing");
    }
}
