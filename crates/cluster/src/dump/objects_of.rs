//! Taking a document apart while it is parsed: the items of a list are handed on one by one, so that a list of
//! a hundred thousand pods is never in memory as a whole.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// What a document turned out to be, once its items were handed on.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Its fields besides `items`; empty for an empty document.
    pub fields: Map<String, Value>,
    /// Whether it has `items`, even if there are none.
    pub has_items: bool,
}

/// Reads one document and hands the entries of its top-level `items` on, with the fields seen before them. Whether it is a list is known only at
/// its end: keys are sorted, and `items` comes before `kind`.
pub(super) struct Document<'a> {
    pub item: &'a mut dyn FnMut(Value, &Map<String, Value>),
}

impl<'de> DeserializeSeed<'de> for Document<'_> {
    type Value = Outline;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Outline, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_> {
    type Value = Outline;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object or a list of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline, A::Error> {
        let mut outline = Outline::default();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                outline.has_items = true;
                map.next_value_seed(Items { item: &mut *self.item, fields: &outline.fields })?;
            } else {
                outline.fields.insert(key, map.next_value()?);
            }
        }
        Ok(outline)
    }

    fn visit_unit<E>(self) -> Result<Outline, E> {
        Ok(Outline::default())
    }

    fn visit_none<E>(self) -> Result<Outline, E> {
        Ok(Outline::default())
    }
}

struct Items<'a> {
    /// The list's fields that came before its items.
    fields: &'a Map<String, Value>,
    item: &'a mut dyn FnMut(Value, &Map<String, Value>),
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            (self.item)(item, self.fields);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }
}
