//! Static bounds on templates.
//!
//! A model may write a template, so rendering must not exhaust memory. Fuel bounds the number of
//! instructions, but not their size: forty assignments that each double a string cost forty instructions and
//! a terabyte. Four rules close the gap. (1) `set` and `for` bind names to existing values or filtered ones,
//! never to operators or list literals, so no binding is larger than an existing value or a budgeted filter
//! result. (2) Statements that capture output (`macro`, `filter`, `set` blocks) do not exist. (3) Within one
//! tag the numbers of growing operators, commas and tokens are limited, so one expression grows its inputs by
//! a constant factor. (4) Nested loops, `set` tags and `elif` branches are counted, which bounds live values
//! and the recursion of the engine. Rendered output and filter results have byte budgets of their own
//! (`environment.rs`).

use super::names;

/// Most operators `~`, `+` and `*` in one tag.
const GROWING_OPERATORS_MAX: usize = 8;

const COMMAS_MAX: usize = 32;

/// Most tokens in one tag; the engine recurses once per token in a chain.
pub(super) const WORDS_MAX: usize = 500;

/// Most `elif` tags in a template; the engine nests each in the one before.
pub(super) const ELIFS_MAX: usize = 250;

/// Deepest nesting of `for`; each loop holds its iterated value.
pub(super) const FOR_NESTING_MAX: usize = 8;

/// Most `set` tags in a template; each may hold a part of a text.
pub(super) const SETS_MAX: usize = 64;

const STATEMENTS: [&str; 9] = ["if", "elif", "else", "endif", "for", "endfor", "set", "raw", "endraw"];

/// Checks every tag of a template, and calls `judge` with the code of each tag, string literals emptied. The
/// error is a line, from 1, and a message.
pub(super) fn check(
    template: &str,
    judge: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<(), (usize, String)> {
    let mut rest = template;
    let mut counts = TagCounts::default();
    while let Some(open) = rest.find('{') {
        let from = &rest[open..];
        let line = || 1 + template[..template.len() - from.len()].matches('\n').count();
        rest = if let Some(comment) = from.strip_prefix("{#") {
            comment.split_once("#}").map_or("", |(_, after)| after)
        } else if let Some(body) = from.strip_prefix("{{") {
            let (tag, after) = split_tag(body, "}}");
            let code = unquoted(tag);
            check_size(&code).and_then(|()| judge(&code)).map_err(|what| (line(), what))?;
            after
        } else if let Some(body) = from.strip_prefix("{%") {
            let (tag, after) = split_tag(body, "%}");
            let word = check_statement(tag, judge).map_err(|what| (line(), what))?;
            counts.add(word).map_err(|what| (line(), what))?;
            if word == "raw" { skip_raw(after) } else { after }
        } else {
            &from[1..]
        };
    }
    Ok(())
}

#[derive(Default)]
struct TagCounts {
    loops: usize,
    sets: usize,
    elifs: usize,
}

impl TagCounts {
    fn add(&mut self, word: &str) -> Result<(), String> {
        match word {
            "for" => self.loops += 1,
            "endfor" => self.loops = self.loops.saturating_sub(1),
            "set" => self.sets += 1,
            "elif" => self.elifs += 1,
            _ => {}
        }
        if self.loops > FOR_NESTING_MAX {
            return Err(format!("at most {FOR_NESTING_MAX} nested for loops, found {}", self.loops));
        }
        if self.sets > SETS_MAX {
            return Err(format!("at most {SETS_MAX} set tags in a template, found {}", self.sets));
        }
        if self.elifs > ELIFS_MAX {
            return Err(format!("at most {ELIFS_MAX} elif tags in a template, found {}", self.elifs));
        }
        Ok(())
    }
}

/// Splits after the end of the tag. As in the engine, an end inside a string or brackets does not count.
/// Without an end the engine reports the error.
fn split_tag<'a>(body: &'a str, end: &str) -> (&'a str, &'a str) {
    let mut quote = None;
    let mut escaped = false;
    let mut nesting = 0_isize;
    for (at, byte) in body.bytes().enumerate() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if byte == b'\\' => escaped = true,
            Some(open) if byte == open => quote = None,
            Some(_) => {}
            None if byte == b'"' || byte == b'\'' => quote = Some(byte),
            None if nesting == 0 && body.as_bytes()[at..].starts_with(end.as_bytes()) => {
                return (&body[..at], &body[at + end.len()..]);
            }
            None => match byte {
                b'(' | b'[' | b'{' => nesting += 1,
                b')' | b']' | b'}' => nesting -= 1,
                _ => {}
            },
        }
    }
    (body, "")
}

/// Skips a raw block up to its end tag; a raw block contains no tags.
fn skip_raw(after: &str) -> &str {
    let ends = |(at, _): &(usize, &str)| {
        let inner = &after[at + 2..];
        let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner).trim_ascii_start();
        let Some(end) = inner.strip_prefix("endraw").map(str::trim_ascii_start) else { return false };
        end.strip_prefix(['-', '+']).unwrap_or(end).starts_with("%}")
    };
    after.match_indices("{%").find(ends).map_or("", |(at, _)| &after[at..])
}

fn unquoted(tag: &str) -> String {
    let mut code = String::with_capacity(tag.len());
    let mut quote = None;
    let mut escaped = false;
    for character in tag.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if character == '\\' => escaped = true,
            Some(open) if character == open => {
                quote = None;
                code.push('"');
            }
            Some(_) => {}
            None => {
                if character == '"' || character == '\'' {
                    quote = Some(character);
                }
                code.push(character);
            }
        }
    }
    code
}

fn check_size(code: &str) -> Result<(), String> {
    let count = code.bytes().filter(|byte| matches!(byte, b'~' | b'+' | b'*')).count();
    if count > GROWING_OPERATORS_MAX {
        return Err(format!(
            "at most {GROWING_OPERATORS_MAX} of the operators ~ + * in one tag, found {count}"
        ));
    }
    let count = code.bytes().filter(|&byte| byte == b',').count();
    if count > COMMAS_MAX {
        return Err(format!("at most {COMMAS_MAX} commas in one tag, found {count}"));
    }
    let count = names::words(code).len();
    if count > WORDS_MAX {
        return Err(format!("at most {WORDS_MAX} tokens in one tag, found {count}"));
    }
    Ok(())
}

fn check_statement<'a>(
    tag: &'a str,
    judge: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<&'a str, String> {
    let body = tag.strip_prefix(['-', '+']).unwrap_or(tag);
    let body = body.strip_suffix(['-', '+']).unwrap_or(body).trim();
    let word = body.split(|character: char| !character.is_ascii_alphanumeric()).next().unwrap_or_default();
    if !STATEMENTS.contains(&word) {
        return Err(format!("expected one of {}, found {word:?}", STATEMENTS.join(", ")));
    }
    let code = unquoted(body);
    check_size(&code)?;
    if word == "set" && !code.contains('=') {
        return Err("set needs a value: `set name = value`".into());
    }
    if word == "set" || word == "for" {
        check_binding(word, &code)?;
    }
    judge(&code)?;
    Ok(word)
}

/// A binding names an existing value: a path with filters.
fn check_binding(word: &str, code: &str) -> Result<(), String> {
    if code
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .any(|it| it == "recursive")
    {
        return Err("recursive for loops are not supported".into());
    }
    let expression = if word == "set" { code.split_once('=') } else { code.split_once(" in ") };
    let Some((_, expression)) = expression else {
        return Ok(()); // the engine will say what is missing
    };
    let grows = expression.bytes().any(|byte| matches!(byte, b'~' | b'+' | b'*' | b'{'));
    let mut before = None;
    let builds = expression.chars().any(|character| {
        let follows_name =
            before.is_some_and(|it: char| it.is_alphanumeric() || matches!(it, '_' | ')' | ']'));
        if !character.is_whitespace() {
            before = Some(character);
        }
        matches!(character, '[' | '(') && !follows_name
    });
    let lists = expression.contains(',') && !expression.contains('(');
    if grows || builds || lists {
        return Err(format!("{word} may only bind an existing value, with filters: no operators, no lists"));
    }
    Ok(())
}
