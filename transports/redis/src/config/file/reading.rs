//! Gives the values of the file to serde, and reports which type was expected if a value has another one. Pure.

use serde::{
    de::{
        DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::{StrDeserializer, StringDeserializer},
    },
    forward_to_deserialize_any,
};

use super::{
    fault::Fault,
    node::{Content, Node},
};

impl<'de> Deserializer<'de> for &Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Text { text, .. } => visitor.visit_str(text),
            Content::Integer(Some(number)) => visitor.visit_i64(*number),
            Content::Boolean(value) => visitor.visit_bool(*value),
            Content::Integer(None) | Content::Other => visitor.visit_unit(),
            Content::List(entries) => visitor.visit_seq(Entries(entries.iter())),
            Content::Table(members) => visitor.visit_map(Members { left: members.iter(), value: None }),
        }
        .map_err(|fault| fault.at(self))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Text { text, from_variables: true } if text == "true" => visitor.visit_bool(true),
            Content::Text { text, from_variables: true } if text == "false" => visitor.visit_bool(false),
            Content::Boolean(value) => visitor.visit_bool(*value),
            _ => Err(self.refused("give true or false; no quotes, unless they hold a ${NAME}")),
        }
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u64(self.number(u8::MAX.into())?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_u64(self.number(u64::MAX)?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Content::Text { text, .. } = &self.content else {
            return Err(self.refused(format!("write one of \"{}\"", names.join("\", \""))));
        };
        let name: StringDeserializer<Fault> = text.clone().into_deserializer();
        visitor.visit_enum(name).map_err(|fault| fault.at(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::List(_) => self.deserialize_any(visitor),
            _ => Err(self.refused("give a list of texts: [\"...\"]")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Table(_) => self.deserialize_any(visitor),
            _ => Err(self.refused("give a table of texts: { \"...\" = \"...\" }")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.content {
            Content::Table(_) => self.deserialize_any(visitor),
            _ => {
                Err(self
                    .refused(format!("it is a section; write [{}]", self.key_of("").trim_end_matches('.'))))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self).map_err(|fault| fault.at(self))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self).map_err(|fault| fault.at(self))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_string(visitor)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

impl Node {
    fn text(&self) -> Result<&str, Fault> {
        match &self.content {
            Content::Text { text, .. } => Ok(text),
            _ => Err(self.refused("write a text, in quotes")),
        }
    }

    fn number(&self, most: u64) -> Result<u64, Fault> {
        let number = match &self.content {
            Content::Integer(number) => *number,
            Content::Text { text, from_variables: true } => text.trim().parse().ok(),
            _ => None,
        };
        let range = if most == u64::MAX { "0 or more".to_owned() } else { format!("from 0 to {most}") };
        let wanted = format!("give a whole number, {range}; no quotes, unless they hold a ${{NAME}}");
        let number = number.and_then(|number| u64::try_from(number).ok()).filter(|number| *number <= most);
        number.ok_or_else(|| self.refused(wanted))
    }
}

struct Entries<'n>(std::slice::Iter<'n, Node>);

impl<'de> SeqAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(entry) = self.0.next() else { return Ok(None) };
        seed.deserialize(entry).map(Some).map_err(|fault| fault.at(entry))
    }
}

struct Members<'n> {
    left: std::slice::Iter<'n, Node>,
    value: Option<&'n Node>,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.value = self.left.next();
        let Some(member) = self.value else { return Ok(None) };
        let name: StrDeserializer<'_, Fault> = member.name().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|fault| fault.at_key(member))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let member = self.value.take().expect("serde asks for a key first");
        seed.deserialize(member).map_err(|fault| fault.at(member))
    }
}
