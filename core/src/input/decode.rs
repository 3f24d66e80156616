//! From a [`Node`] to a wire struct, with the path and place of what does not fit.
//!
//! Types are read as Go's JSON decoder reads them: `null` is the zero value of whatever is wanted, a number is
//! never a string, a string never a number.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::node::{Entry, Node, Value, excerpt, push_index, push_key};
use crate::model::source::Position;

/// Why a node is not the wanted struct.
#[derive(Debug)]
pub(crate) struct DecodeError {
    /// Field path from the object.
    pub(crate) path: String,
    /// Place of that field.
    pub(crate) position: Option<Position>,
    /// What is wrong with it.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: Option<String>,
}

/// Reads a struct.
pub(crate) fn decode<T: DeserializeOwned>(node: &Node<'_>) -> Result<T, DecodeError> {
    T::deserialize(Decoder(node)).map_err(|fault| {
        let mut path = String::new();
        for step in fault.steps.iter().rev() {
            match step {
                Step::Key(key) => push_key(&mut path, key),
                Step::Index(index) => push_index(&mut path, *index),
            }
        }
        DecodeError {
            path,
            position: fault.position.or(Some(node.position)),
            message: fault.message,
            hint: fault.hint,
        }
    })
}

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

/// An error on its way up: steps are added innermost first.
#[derive(Debug)]
struct Fault {
    steps: Vec<Step>,
    position: Option<Position>,
    message: String,
    hint: Option<String>,
}

impl Fault {
    fn new(message: String) -> Self {
        Self { steps: Vec::new(), position: None, message, hint: None }
    }

    fn expected(wanted: &str, node: &Node<'_>) -> Self {
        let mut fault = Self::new(format!("expected {wanted}, found {}", node.describe()));
        fault.hint = match (&node.value, wanted) {
            (Value::Bool { text, .. } | Value::Int { text, .. } | Value::Float { text, .. }, "a string") => {
                Some(format!("quote it: \"{text}\""))
            }
            (Value::String(text), "a number") if text.parse::<i64>().is_ok() => {
                Some("take the quotes away".to_owned())
            }
            (Value::Mapping(_), "a list") => Some("start each element with `- `".to_owned()),
            (Value::Sequence(_), "an object") => Some("take the dash away".to_owned()),
            _ => None,
        };
        fault
    }

    fn within(mut self, step: Step, position: Position) -> Self {
        self.steps.push(step);
        self.position.get_or_insert(position);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(unexpected: de::Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        let found = match unexpected {
            de::Unexpected::Bool(value) => format!("the boolean `{value}`"),
            de::Unexpected::Unsigned(value) => format!("the number `{value}`"),
            de::Unexpected::Signed(value) => format!("the number `{value}`"),
            de::Unexpected::Float(value) => format!("the number `{value}`"),
            de::Unexpected::Str(text) => format!("the string {}", excerpt(text)),
            de::Unexpected::Seq => "a list".to_owned(),
            de::Unexpected::Map => "an object".to_owned(),
            de::Unexpected::Unit | de::Unexpected::Option => "nothing".to_owned(),
            other => other.to_string(),
        };
        Self::new(format!("expected {wanted}, found {found}"))
    }
}

#[derive(Clone, Copy)]
struct Decoder<'n, 't>(&'n Node<'t>);

macro_rules! numbers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match &self.0.value {
                Value::Null => visitor.visit_i64(0),
                Value::Int { value, .. } => visitor.visit_i64(*value),
                // `80.0` is 80 to Go's decoder of YAML turned JSON; `80.5` is refused.
                Value::Float { value, .. } if value.fract() == 0.0 && value.abs() < 9e15 => {
                    #[expect(clippy::cast_possible_truncation, reason = "a whole number below 2^53")]
                    visitor.visit_i64(*value as i64)
                }
                _ => Err(Fault::expected("a number", self.0)),
            }
        }
    )*};
}

macro_rules! strings {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match &self.0.value {
                Value::Null => visitor.visit_str(""),
                Value::String(text) => visitor.visit_str(text),
                _ => Err(Fault::expected("a string", self.0)),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Decoder<'_, '_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool { value, .. } => visitor.visit_bool(*value),
            Value::Int { value, .. } => visitor.visit_i64(*value),
            Value::Float { value, .. } => visitor.visit_f64(*value),
            Value::String(text) => visitor.visit_str(text),
            Value::Sequence(items) => visitor.visit_seq(Items { items, index: 0 }),
            Value::Mapping(entries) => visitor.visit_map(Entries { entries, value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null => visitor.visit_bool(false),
            Value::Bool { value, .. } => visitor.visit_bool(*value),
            _ => Err(Fault::expected("true or false", self.0)),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null => visitor.visit_seq(Items { items: &[], index: 0 }),
            Value::Sequence(items) => visitor.visit_seq(Items { items, index: 0 }),
            _ => Err(Fault::expected("a list", self.0)),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Null => visitor.visit_map(Entries { entries: &[], value: None }),
            Value::Mapping(entries) => visitor.visit_map(Entries { entries, value: None }),
            _ => Err(Fault::expected("an object", self.0)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    numbers! { deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
    deserialize_u32 deserialize_u64 }
    strings! { deserialize_str deserialize_string deserialize_char deserialize_identifier }

    serde::forward_to_deserialize_any! {
        i128 u128 f32 f64 bytes byte_buf unit unit_struct tuple tuple_struct enum
    }
}

struct Items<'n, 't> {
    items: &'n [Node<'t>],
    index: usize,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(item) = self.items.get(self.index) else { return Ok(None) };
        let step = Step::Index(self.index);
        self.index += 1;
        seed.deserialize(Decoder(item)).map(Some).map_err(|fault| fault.within(step, item.position))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.index)
    }
}

struct Entries<'n, 't> {
    entries: &'n [Entry<'t>],
    value: Option<&'n Entry<'t>>,
}

impl<'de> MapAccess<'de> for Entries<'_, '_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some((entry, rest)) = self.entries.split_first() else { return Ok(None) };
        self.entries = rest;
        self.value = Some(entry);
        seed.deserialize(StrDeserializer::<Fault>::new(&entry.key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(entry) = self.value.take() else {
            return Err(Fault::new("a value without its key".to_owned()));
        };
        seed.deserialize(Decoder(&entry.value))
            .map_err(|fault| fault.within(Step::Key(entry.key.to_string()), entry.position))
    }
}
