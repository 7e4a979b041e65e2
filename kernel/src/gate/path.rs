//! Textual check of path parameters.
//!  
//! The tool opens paths beneath the workspace on its own. This check in front of the tool covers every reading of the text
//! that the tool, a library or a program may apply.

use std::collections::BTreeSet;

/// Maximum decoding rounds, each applied to the results of the round before.
const ROUNDS_MAX: usize = 15;

const READINGS_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathFault {
    /// Some reading leads out of the workspace.
    #[error("it can lead out of the workspace")]
    Escapes,
    /// Some reading is empty.
    #[error("it is empty")]
    Empty,
    /// Some reading begins with `~` or a scheme.
    #[error("it begins with `~` or a URL scheme")]
    NotAPath,
    /// Some reading holds a NUL, or bytes that are not UTF-8.
    #[error("it contains a NUL or bytes that are not UTF-8")]
    NotText,
    /// The path has too many readings.
    #[error("it is encoded too many times")]
    Endless,
}

/// Checks a path against the absolute folder `root` (empty: every absolute path is denied).
///  
/// A path has several readings: as written, percent-decoded, with backslashes as slashes, and with Unicode look-alikes of
/// dots and slashes replaced by the plain characters. Each transformation applies to each reading, so that double encoding
/// (`%252e`) is unfolded, until no new reading appears. The path passes only if every reading does. The search is
/// breadth-first and bounded by [`ROUNDS_MAX`] and [`READINGS_MAX`]; a path beyond the bounds is denied.
///  
/// One reading passes if normalisation keeps the path inside the workspace. A relative path must never climb above its
/// start, not even if a later segment returns. An absolute path must end beneath `root`.
///  
/// # Errors
///  
/// The fault of the first reading that fails.
pub(super) fn judge(path: &str, root: &str) -> Result<(), PathFault> {
    judge_reading(path, root)?;
    if path.is_ascii() && !path.contains(['%', '\\']) {
        return Ok(()); // no transformation changes the text
    }
    let mut readings = BTreeSet::from([path.to_owned()]);
    let mut newest = vec![path.to_owned()];
    for _ in 0..ROUNDS_MAX {
        let mut found = Vec::new();
        for reading in &newest {
            for next in [percent_decoded(reading)?, reading.replace('\\', "/"), plain_characters(reading)] {
                if readings.contains(&next) {
                    continue;
                }
                judge_reading(&next, root)?;
                readings.insert(next.clone());
                found.push(next);
            }
        }
        if found.is_empty() {
            return Ok(());
        }
        if readings.len() > READINGS_MAX {
            return Err(PathFault::Endless);
        }
        newest = found;
    }
    Err(PathFault::Endless)
}

fn judge_reading(path: &str, root: &str) -> Result<(), PathFault> {
    if path.is_empty() {
        return Err(PathFault::Empty);
    }
    if path.contains(['\0', '\u{fffd}']) {
        return Err(PathFault::NotText);
    }
    if path.starts_with('~') || has_scheme(path) {
        return Err(PathFault::NotAPath);
    }
    if !path.starts_with('/') {
        return climb_only(path);
    }
    let within =
        |inner: &[&str], outer: &[&str]| inner.len() >= outer.len() && inner[..outer.len()] == *outer;
    let inner = climb(path)?;
    if root.starts_with('/') && within(&inner, &climb(root)?) { Ok(()) } else { Err(PathFault::Escapes) }
}

/// The segments of a path after resolving `.` and `..`; an error if `..` climbs above the start.
fn climb(path: &str) -> Result<Vec<&str>, PathFault> {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop().ok_or(PathFault::Escapes)?;
            }
            name => segments.push(name),
        }
    }
    Ok(segments)
}

/// Same as [`climb`] without allocating.
fn climb_only(path: &str) -> Result<(), PathFault> {
    let mut depth = 0_usize;
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => depth = depth.checked_sub(1).ok_or(PathFault::Escapes)?,
            _ => depth += 1,
        }
    }
    Ok(())
}

/// True if the path begins with `scheme:/`. Another reading has a slash for the backslash of `c:\x`.
fn has_scheme(path: &str) -> bool {
    let Some((scheme, rest)) = path.split_once(':') else { return false };
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(letters)
        && rest.starts_with('/')
}

fn percent_decoded(path: &str) -> Result<String, PathFault> {
    let bytes = path.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|&byte| (byte as char).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).map_err(|_| PathFault::NotText)
}

fn plain_characters(path: &str) -> String {
    let plain = |character| match character {
        '\u{ff0e}' | '\u{2024}' | '\u{fe52}' => ".",
        '\u{2025}' => "..",
        '\u{ff0f}' | '\u{2044}' | '\u{2215}' | '\u{29f8}' => "/",
        '\u{ff3c}' | '\u{2216}' | '\u{29f9}' => "\\",
        _ => "",
    };
    let mut text = String::with_capacity(path.len());
    for character in path.chars() {
        match plain(character) {
            "" => text.push(character),
            plain => text.push_str(plain),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_within_its_workspace_in_every_reading() {
        for path in [
            "a",
            ".",
            "./a",
            "a/../b",
            "a//b/",
            "/srv/space",
            "/srv/space/a",
            "/srv/../srv/space/./a",
            "100%",
            "100%.txt",
            "a%20b",
            "a%g0",
            "a\\b",
            "c:x",
            "a:b/c",
            "1a:/x",
            "a b:/x",
            "été",
            "..a",
            "a..",
            "a~",
            "...",
            "/srv/space/../space/b",
        ] {
            assert_eq!(judge(path, "/srv/space"), Ok(()), "{path}");
        }
        for (path, fault) in [
            ("", PathFault::Empty),
            ("..", PathFault::Escapes),
            ("./../x", PathFault::Escapes),
            ("a//../../x", PathFault::Escapes),
            ("\\", PathFault::Escapes),
            ("../space/a", PathFault::Escapes),
            ("a/../../space/a", PathFault::Escapes),
            ("/", PathFault::Escapes),
            ("/srv", PathFault::Escapes),
            ("/srv/spaces", PathFault::Escapes),
            ("/srv/space/../x", PathFault::Escapes),
            ("/srv/space/./..", PathFault::Escapes),
            ("/../srv/space", PathFault::Escapes),
            ("/etc/passwd", PathFault::Escapes),
            ("%2e%2e/x", PathFault::Escapes),
            ("%252e%252e/x", PathFault::Escapes),
            ("..%2fx", PathFault::Escapes),
            ("a\\..\\..\\x", PathFault::Escapes),
            ("..%5cx", PathFault::Escapes),
            ("\u{ff0e}\u{ff0e}/x", PathFault::Escapes),
            ("\u{2025}/x", PathFault::Escapes),
            ("..\u{2215}x", PathFault::Escapes),
            ("%EF%BC%8E%EF%BC%8E\u{29f9}x", PathFault::Escapes),
            ("%2fetc/passwd", PathFault::Escapes),
            ("~/x", PathFault::NotAPath),
            ("~root", PathFault::NotAPath),
            ("%7e/x", PathFault::NotAPath),
            ("file:///etc/passwd", PathFault::NotAPath),
            ("file:/a:b", PathFault::NotAPath),
            ("c:\\x", PathFault::NotAPath),
            ("h2-a+b.c:/x", PathFault::NotAPath),
            ("a\0b", PathFault::NotText),
            ("a%00b", PathFault::NotText),
            ("a%ffb", PathFault::NotText),
            ("a\u{fffd}", PathFault::NotText),
        ] {
            assert_eq!(judge(path, "/srv/space"), Err(fault), "{path}");
        }
    }

    #[test]
    fn a_look_alike_is_read_as_the_plain_character() {
        let dots = ["\u{ff0e}", "\u{2024}", "\u{fe52}"].map(|dot| format!("{dot}./x"));
        let slashes = ["\u{ff0f}", "\u{2044}", "\u{2215}", "\u{29f8}", "\u{ff3c}", "\u{2216}", "\u{29f9}"];
        for path in dots.into_iter().chain(slashes.map(|slash| format!("..{slash}x"))) {
            assert_eq!(judge(&path, ""), Err(PathFault::Escapes), "{path}");
        }
    }

    #[test]
    fn decoding_has_an_end() {
        let encoded = |rounds| format!("%{}41", "25".repeat(rounds));
        assert_eq!(judge(&encoded(ROUNDS_MAX - 2), ""), Ok(()));
        assert_eq!(judge(&encoded(ROUNDS_MAX), ""), Err(PathFault::Endless));
    }

    #[test]
    fn so_many_readings_are_tried() {
        // The backslash at each depth is read as one or as a slash from that depth on: 2 + 3 + .. + 10 readings, and 10 or 11
        // of the last depth.
        let at_depth = |depth: usize, code: &str| match depth {
            0 => "a\\".to_owned(),
            depth => format!("a%{}{code}", "25".repeat(depth - 1)),
        };
        let backslashes: String = (0..9).map(|depth| at_depth(depth, "5c")).collect();
        let path = |last: &str| format!("{backslashes}{}", at_depth(9, last));
        assert_eq!(judge(&path("41"), ""), Ok(()));
        assert_eq!(judge(&path("5c"), ""), Err(PathFault::Endless));
    }

    #[test]
    fn without_a_root_no_absolute_path_will_do() {
        assert_eq!(judge("/", ""), Err(PathFault::Escapes));
        assert_eq!(judge("a", ""), Ok(()));
        assert_eq!(judge("/anything", "/"), Ok(()));
        assert_eq!(judge("/srv/a", "srv/"), Err(PathFault::Escapes));
    }
}
