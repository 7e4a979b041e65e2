//! A serde serializer that writes canonical JSON directly, without an intermediate tree.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Range;

use serde::Serialize;
use serde::ser::{self, Impossible, Serializer};
use serde_json::Number;

use super::{Json, JsonError, MAX_DEPTH, number, utf16_order, write_string};

/// Canonical text of any serializable value, equal to the text of its [`serde_json::Value`]. Keys must be strings and unique
/// within their object.
///  
/// ```
/// #[derive(serde::Serialize)]
/// struct Step { tool: String, after: Vec<u32> }
/// let step = Step { tool: "fs.read".into(), after: vec![1, 2] };
/// assert_eq!(ostler_kernel::json::to_canonical(&step).unwrap().as_str(), r#"{"after":[1,2],"tool":"fs.read"}"#);
/// ```
///  
/// # Errors
///  
/// Same as [`canonical`](super::canonical), and [`JsonError::Syntax`] for values without JSON form, such as a key that is not
/// a string.
pub fn to_canonical<T: Serialize + ?Sized>(value: &T) -> Result<Json, JsonError> {
    let mut writer = Writer { out: String::with_capacity(256), depth_left: MAX_DEPTH };
    value.serialize(&mut writer).map_err(|SerializeError(error)| error)?;
    Ok(Json(writer.out.into()))
}

/// Error type for serde, which must be constructible from any message.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct SerializeError(#[from] JsonError);

impl SerializeError {
    fn unwritable() -> SerializeError {
        SerializeError(JsonError::Syntax { at: 0, expected: "something that JSON can say" })
    }
}

impl ser::Error for SerializeError {
    fn custom<T: Display>(_: T) -> SerializeError {
        SerializeError::unwritable()
    }
}

struct Writer {
    out: String,
    depth_left: usize,
}

impl Writer {
    fn open(&mut self, bracket: char) -> Result<(), SerializeError> {
        self.depth_left = self.depth_left.checked_sub(1).ok_or(JsonError::TooDeep { at: 0 })?;
        self.out.push(bracket);
        Ok(())
    }

    fn close(&mut self, bracket: char) {
        self.depth_left += 1;
        self.out.push(bracket);
    }

    fn number(&mut self, number: impl Into<Number>) -> Result<(), SerializeError> {
        Ok(number::write(&number.into(), &mut self.out)?)
    }

    fn members(&mut self, count: usize) -> Result<Members<'_>, SerializeError> {
        self.open('{')?;
        Ok(Members { begin: self.out.len(), writer: self, members: Vec::with_capacity(count) })
    }
}

impl<'a> Serializer for &'a mut Writer {
    type Ok = ();
    type Error = SerializeError;
    type SerializeSeq = Items<'a>;
    type SerializeTuple = Items<'a>;
    type SerializeTupleStruct = Items<'a>;
    type SerializeTupleVariant = Impossible<(), SerializeError>;
    type SerializeMap = Members<'a>;
    type SerializeStruct = Members<'a>;
    type SerializeStructVariant = Impossible<(), SerializeError>;

    fn serialize_bool(self, value: bool) -> Result<(), SerializeError> {
        self.out.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_i16(self, value: i16) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_i32(self, value: i32) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_i64(self, value: i64) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_u8(self, value: u8) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_u16(self, value: u16) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_u32(self, value: u32) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_u64(self, value: u64) -> Result<(), SerializeError> {
        self.number(value)
    }

    fn serialize_f32(self, value: f32) -> Result<(), SerializeError> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), SerializeError> {
        self.number(Number::from_f64(value).ok_or(JsonError::NotFinite { at: 0 })?)
    }

    fn serialize_char(self, value: char) -> Result<(), SerializeError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), SerializeError> {
        write_string(value, &mut self.out);
        Ok(())
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), SerializeError> {
        Err(SerializeError::unwritable())
    }

    fn serialize_none(self) -> Result<(), SerializeError> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), SerializeError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), SerializeError> {
        self.out.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), SerializeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), SerializeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), SerializeError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), SerializeError> {
        let mut members = self.members(1)?;
        members.member(variant, value)?;
        members.end();
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a>, SerializeError> {
        self.open('[')?;
        Ok(Items { writer: self, first: true })
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a>, SerializeError> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a>, SerializeError> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, SerializeError> {
        Err(SerializeError::unwritable())
    }

    fn serialize_map(self, members: Option<usize>) -> Result<Members<'a>, SerializeError> {
        self.members(members.unwrap_or(0))
    }

    fn serialize_struct(self, _: &'static str, members: usize) -> Result<Members<'a>, SerializeError> {
        self.members(members)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, SerializeError> {
        Err(SerializeError::unwritable())
    }
}

struct Items<'a> {
    writer: &'a mut Writer,
    first: bool,
}

impl Items<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), SerializeError> {
        if !std::mem::take(&mut self.first) {
            self.writer.out.push(',');
        }
        item.serialize(&mut *self.writer)
    }
}

/// An object in progress. Members are written in the order of the struct's fields; the end sorts them if that order is not the
/// canonical one.
struct Members<'a> {
    writer: &'a mut Writer,
    begin: usize,
    members: Vec<Member>,
}

struct Member {
    key: Range<usize>,
    whole: Range<usize>,
    /// The key has no escapes and is ASCII, so that byte order equals UTF-16 order.
    plain: bool,
}

impl Members<'_> {
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerializeError> {
        if !self.members.is_empty() {
            self.writer.out.push(',');
        }
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        let end = self.writer.out.len();
        if !self.writer.out[start..].starts_with('"') {
            return Err(SerializeError::unwritable());
        }
        let key = start + 1..end - 1;
        let plain =
            self.writer.out.as_bytes()[key.clone()].iter().all(|byte| byte.is_ascii() && *byte != b'\\');
        self.writer.out.push(':');
        self.members.push(Member { key, whole: start..end, plain });
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        value.serialize(&mut *self.writer)?;
        if let Some(member) = self.members.last_mut() {
            member.whole.end = self.writer.out.len();
        }
        Ok(())
    }

    fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), SerializeError> {
        self.key(key)?;
        self.value(value)
    }

    fn end(mut self) {
        let out = &self.writer.out;
        let by_key = |left: &Member, right: &Member| {
            let plain = left.plain && right.plain;
            let (left, right) = (&out[left.key.clone()], &out[right.key.clone()]);
            if plain { left.cmp(right) } else { utf16_order(&unescaped(left), &unescaped(right)) }
        };
        if !self.members.is_sorted_by(|left, right| by_key(left, right).is_lt()) {
            self.members.sort_unstable_by(by_key);
            let members: Vec<&str> = self.members.iter().map(|member| &out[member.whole.clone()]).collect();
            let ordered = members.join(",");
            self.writer.out.truncate(self.begin);
            self.writer.out.push_str(&ordered);
        }
        self.writer.close('}');
    }
}

fn unescaped(key: &str) -> Cow<'_, str> {
    if !key.contains('\\') {
        return Cow::Borrowed(key);
    }
    serde_json::from_str(&format!("\"{key}\"")).map_or(Cow::Borrowed(key), Cow::Owned)
}

impl ser::SerializeSeq for Items<'_> {
    type Ok = ();
    type Error = SerializeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), SerializeError> {
        self.item(item)
    }

    fn end(self) -> Result<(), SerializeError> {
        self.writer.close(']');
        Ok(())
    }
}

impl ser::SerializeTuple for Items<'_> {
    type Ok = ();
    type Error = SerializeError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), SerializeError> {
        self.item(item)
    }

    fn end(self) -> Result<(), SerializeError> {
        ser::SerializeSeq::end(self)
    }
}

impl ser::SerializeTupleStruct for Items<'_> {
    type Ok = ();
    type Error = SerializeError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), SerializeError> {
        self.item(item)
    }

    fn end(self) -> Result<(), SerializeError> {
        ser::SerializeSeq::end(self)
    }
}

impl ser::SerializeMap for Members<'_> {
    type Ok = ();
    type Error = SerializeError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerializeError> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerializeError> {
        self.value(value)
    }

    fn end(self) -> Result<(), SerializeError> {
        Members::end(self);
        Ok(())
    }
}

impl ser::SerializeStruct for Members<'_> {
    type Ok = ();
    type Error = SerializeError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), SerializeError> {
        self.member(key, value)
    }

    fn end(self) -> Result<(), SerializeError> {
        Members::end(self);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::super::tests::any_value;
    use super::*;
    use crate::json::canonical;

    /// Fields out of order, with one of each kind that plans use.
    #[derive(Serialize)]
    struct Mixed {
        z: Option<u8>,
        a: (char, f32),
        #[serde(rename = "\"")]
        quote: BTreeMap<String, Kind>,
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<()>,
        m: Vec<Id>,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        PlainWord,
        With(i64),
    }

    #[derive(Serialize)]
    struct Id(&'static str);

    #[test]
    fn a_struct_is_written_as_its_value_would_be() {
        let quote = [("\n".to_owned(), Kind::PlainWord), ("#".to_owned(), Kind::With(-1))].into();
        let mixed = Mixed { z: None, a: ('é', 0.5), quote, left_out: None, m: vec![Id("x"), Id("")] };
        let text = to_canonical(&mixed).unwrap();
        assert_eq!(
            text.as_str(),
            r##"{"\"":{"\n":"plain_word","#":{"with":-1}},"a":["é",0.5],"m":["x",""],"z":null}"##
        );
        assert_eq!(text, canonical(&serde_json::to_value(&mixed).unwrap()).unwrap());
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        assert_eq!(to_canonical(&u64::MAX), Err(JsonError::BigInteger { at: 0 }));
        assert_eq!(to_canonical(&f64::NAN), Err(JsonError::NotFinite { at: 0 }));
        assert_eq!(to_canonical(&BTreeMap::from([(1, 2)])).unwrap_err().code(), "syntax");
        let mut deep = json!([]);
        for _ in 0..MAX_DEPTH {
            deep = json!([deep]);
        }
        assert_eq!(to_canonical(&deep), Err(JsonError::TooDeep { at: 0 }));
    }

    proptest! {
        #[test]
        fn a_value_is_written_as_ever(value in any_value()) {
            prop_assert_eq!(to_canonical(&value), canonical(&value));
        }
    }
}
