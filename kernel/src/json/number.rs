//! Number formatting: ECMAScript's `Number::toString`, as RFC 8785 section 3.2.2.3 requires.
//!  
//! The text is the shortest decimal that reads back as the same double; of two equally short ones the nearer, of two equally
//! near ones the one with an even last digit. Magnitudes from 1e-6 up to 1e21 are written out, others with an exponent.

use super::{JsonError, MAX_INTEGER, Sink};

const EXPONENT_FROM: f64 = 1e21;

/// True if a finite double prints as an integer beyond 2^53. Doubles from 1e21 on print with an exponent and no reader takes
/// them for integers.
pub(super) fn prints_as_big_integer(number: f64) -> bool {
    let magnitude = number.abs();
    magnitude > MAX_INTEGER as f64 && magnitude < EXPONENT_FROM
}

pub(super) fn write(number: &serde_json::Number, out: &mut impl Sink) -> Result<(), JsonError> {
    if let Some(natural) = number.as_u64() {
        return write_integer(false, natural, out);
    }
    if let Some(integer) = number.as_i64() {
        return write_integer(integer < 0, integer.unsigned_abs(), out);
    }
    let double = number.as_f64().ok_or(JsonError::NotFinite { at: 0 })?;
    write_double(double, out)
}

fn write_integer(negative: bool, magnitude: u64, out: &mut impl Sink) -> Result<(), JsonError> {
    if magnitude > MAX_INTEGER {
        return Err(JsonError::BigInteger { at: 0 });
    }
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = magnitude;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if negative {
        start -= 1;
        digits[start] = b'-';
    }
    out.push(ascii(&digits[start..]));
    Ok(())
}

fn write_double(number: f64, out: &mut impl Sink) -> Result<(), JsonError> {
    if !number.is_finite() {
        return Err(JsonError::NotFinite { at: 0 });
    }
    if prints_as_big_integer(number) {
        return Err(JsonError::BigInteger { at: 0 });
    }
    if number.trunc() == number && number.abs() <= MAX_INTEGER as f64 {
        return write_integer(number < 0.0, number.abs() as u64, out); // -0 prints as 0
    }
    let mut buffer = zmij::Buffer::new();
    let shortest = Shortest::of(buffer.format_finite(number.abs()));
    if number < 0.0 {
        out.push("-");
    }
    shortest.write(out);
    Ok(())
}

/// Maximum digits of a shortest text, including leading and trailing zeros.
const DIGITS_MAX: usize = 32;

/// Shortest decimal digits of a double, and the power of ten of the first digit. The digits come from
/// `zmij`: the standard library breaks ties between two equally near decimals differently from ECMAScript.
struct Shortest {
    digits: [u8; DIGITS_MAX],
    begin: usize,
    end: usize,
    exponent: i32,
}

impl Shortest {
    /// Extracts digits and exponent from a decimal text of a positive number.
    fn of(text: &str) -> Shortest {
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let power: i32 = power.parse().expect("the exponent is an integer");
        let mut digits = [0; DIGITS_MAX];
        let (mut end, mut point) = (0, None);
        for byte in mantissa.bytes() {
            if byte == b'.' {
                point = Some(end);
            } else {
                digits[end] = byte;
                end += 1;
            }
        }
        let point = point.unwrap_or(end);
        let begin = digits[..end].iter().take_while(|&&digit| digit == b'0').count();
        end -= digits[begin..end].iter().rev().take_while(|&&digit| digit == b'0').count();
        Shortest { digits, begin, end, exponent: power + point as i32 - begin as i32 - 1 }
    }

    /// Writes the number in ECMAScript's layout: `0.00ddd` for exponents -6 to -1, `dd.ddd` up to 20, otherwise `d.ddde±x`. The
    /// caller has written integers below 1e21 already.
    fn write(&self, out: &mut impl Sink) {
        const ZEROS: &str = "00000";
        let digits = ascii(&self.digits[self.begin..self.end]);
        let exponent = self.exponent;
        if (-6..0).contains(&exponent) {
            out.push("0.");
            out.push(&ZEROS[..(-exponent - 1) as usize]);
            out.push(digits);
        } else if (0..21).contains(&exponent) {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            out.push(whole);
            out.push(".");
            out.push(fraction);
        } else {
            let (first, others) = digits.split_at(1);
            out.push(first);
            if !others.is_empty() {
                out.push(".");
                out.push(others);
            }
            out.push(if exponent < 0 { "e-" } else { "e+" });
            write_integer(false, u64::from(exponent.unsigned_abs()), out)
                .expect("an exponent has three digits at most");
        }
    }
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("digits and signs are ASCII")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_print_as_in_ecmascript() {
        for (number, text) in [
            (0.1, "0.1"),
            (-0.0, "0"),
            (1e-6, "0.000001"),
            (1.25e-6, "0.00000125"),
            (1e-7, "1e-7"),
            (-1.5e-10, "-1.5e-10"),
            (123456.789, "123456.789"),
            (4503599627370495.5, "4503599627370495.5"),
            (1_424_953_923_781_206.0 + 0.25, "1424953923781206.2"), // a tie between .2 and .3
            (5e-5, "0.00005"),
            (1e21, "1e+21"),
            (f64::MAX, "1.7976931348623157e+308"),
            (-f64::MIN_POSITIVE, "-2.2250738585072014e-308"),
            (5e-324, "5e-324"),
        ] {
            let mut out = String::new();
            write_double(number, &mut out).unwrap();
            assert_eq!(out, text);
        }
    }

    #[test]
    fn what_is_not_finite_or_not_exact_is_refused() {
        for (number, code) in [
            (f64::NAN, "not_finite"),
            (f64::NEG_INFINITY, "not_finite"),
            (1e20, "big_integer"),
            (-9007199254740994.0, "big_integer"),
        ] {
            assert_eq!(write_double(number, &mut String::new()).unwrap_err().code(), code, "{number}");
        }
    }
}
