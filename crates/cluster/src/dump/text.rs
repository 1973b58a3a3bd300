//! From bytes to documents: encodings, JSON or YAML, and where one document ends and the next begins.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::DeserializeSeed;
use serde_saphyr::MergeKeyPolicy;

use super::batch::Batch;
use super::objects_of::Document;
use crate::problem::{Finding, Origin, Problem};

/// The text of a file: UTF-8, or UTF-16 with its mark, which some shells write when output is redirected.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, Finding> {
    let wrong = |what: &str| Finding::new("", format!("it is not {what} text, and was left out"), "save it as UTF-8");
    let wide = |from: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks(2).map(|pair| from([pair[0], *pair.get(1).unwrap_or(&0)]));
        char::decode_utf16(units).collect::<Result<String, _>>().map(Cow::Owned).map_err(|_| wrong("UTF-16"))
    };
    match bytes {
        [0xFF, 0xFE, ..] => wide(u16::from_le_bytes),
        [0xFE, 0xFF, ..] => wide(u16::from_be_bytes),
        _ => {
            let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
            std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| wrong("UTF-8"))
        }
    }
}

/// Reads all documents of `text` and gives each one's objects to `take`.
pub(super) fn read(file: &Arc<str>, text: &str, take: &mut dyn FnMut(Batch)) {
    let only_json = file.ends_with(".json");
    if only_json || text.trim_start().starts_with('{') {
        // JSON is YAML too, but reading it as such takes several times as long.
        let (batches, failure) = read_json(file, text);
        if failure.is_none() || only_json {
            batches.into_iter().for_each(&mut *take);
            if let Some((document, error)) = failure {
                let line = (error.line() > 0).then_some(error.line() as u64);
                take(broken(file, document, line, &error.to_string()));
            }
            return;
        }
    }
    read_yaml(file, text, take);
}

/// JSON documents, one after the other. After a broken one nothing can be told apart any more.
fn read_json(file: &Arc<str>, text: &str) -> (Vec<Batch>, Option<(usize, serde_json::Error)>) {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut batches = Vec::new();
    let mut objects = 0;
    while deserializer.end().is_err() {
        let mut batch = Batch::new(file.clone(), objects);
        match (Document { item: &mut |item, list| batch.item(item, list) }).deserialize(&mut deserializer) {
            Ok(outline) => batch.end(outline),
            Err(error) => {
                let document = batches.len();
                return (batches, Some((document, error)));
            }
        }
        objects = batch.next_object;
        batches.push(batch);
    }
    (batches, None)
}

fn read_yaml(file: &Arc<str>, text: &str, take: &mut dyn FnMut(Batch)) {
    let mut objects = 0;
    for (index, piece) in Pieces::new(text).enumerate() {
        let mut batch = Batch::new(file.clone(), objects);
        let options = options(piece.text.len());
        let read = serde_saphyr::with_deserializer_from_str_with_options(piece.text, options, |deserializer| {
            Document { item: &mut |item, list| batch.item(item, list) }.deserialize(deserializer)
        });
        match read {
            Ok(outline) => batch.end(outline),
            Err(error) => {
                // Where the parser names no line, the document's first one is near enough.
                let line = error.location().map_or(1, |location| location.line()).max(1);
                batch = broken(file, index, Some(piece.first_line + line - 1), &message(&error));
                batch.next_object = objects;
            }
        }
        objects = batch.next_object;
        take(batch);
    }
}

/// The parser's words without its place, which counts from the start of the document, and without its advice
/// to programmers.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let first = text.lines().next().unwrap_or_default();
    first.split(" at line ").next().unwrap_or(first).to_owned()
}

/// A batch that only says that its document is broken. Nothing of it counts: what came before the fault would
/// be an arbitrary part.
fn broken(file: &Arc<str>, document: usize, line: Option<u64>, why: &str) -> Batch {
    let mut batch = Batch::new(file.clone(), 0);
    let origin = Origin { file: Some(file.clone()), document: Some(document), line, ..Origin::default() };
    let what = format!("the document cannot be read, and none of it counts ({why})");
    batch.problems.push(Problem { origin, finding: Finding::new("", what, "correct the file, or dump it anew") });
    batch
}

/// Parser options for a document of `bytes`. The parser bounds what a document may cost, for the sake of small
/// ones that unfold into huge ones; its bounds suit configuration files. Here they grow with the document, so
/// that the cost stays linear in what is really there; what aliases multiply keeps the fixed bounds.
fn options(bytes: usize) -> serde_saphyr::Options {
    let defaults = serde_saphyr::Budget::default();
    // No node takes less than a byte of text, and none makes more than two events. Escapes may lengthen a text,
    // by half at most.
    let twice = bytes.saturating_mul(2);
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: defaults.max_events.max(twice),
            max_nodes: defaults.max_nodes.max(bytes),
            max_total_scalar_bytes: defaults.max_total_scalar_bytes.max(twice),
        },
        emit_comments: false,
        with_snippet: false,
        merge_keys: MergeKeyPolicy::Merge,
        // kubectl writes booleans as true and false; a bare `n` or `on` is somebody's name or label.
        strict_booleans: true,
        // Infinities have no place in JSON; as texts they fail where a number is wanted, and only there.
        non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::AsString,
    }
}

/// A document of a YAML stream.
#[derive(Debug, PartialEq, Eq)]
struct Piece<'a> {
    text: &'a str,
    /// Line of the stream where it starts, from 1.
    first_line: u64,
}

/// Splits a YAML stream into documents without parsing it, so that a broken one does not hide the rest. YAML
/// allows that: `---` and `...` at the start of a line are markers wherever they stand, even within texts.
struct Pieces<'a> {
    rest: &'a str,
    line: u64,
}

impl<'a> Pieces<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1 }
    }

    /// The next piece, and whether there is anything in it.
    fn cut(&mut self) -> (Piece<'a>, bool) {
        let first_line = self.line;
        let (mut end, mut marked, mut filled) = (0, false, false);
        for line in self.rest.split_inclusive('\n') {
            let start =
                line.strip_prefix("---").filter(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
            if start.is_some() && (marked || filled) {
                break;
            }
            end += line.len();
            self.line += 1;
            let stop = line.strip_prefix("...").is_some_and(|rest| rest.trim().is_empty());
            if stop {
                break;
            }
            marked |= start.is_some();
            let content = start.unwrap_or(line).trim();
            let directive = line.starts_with('%') && !marked;
            filled |= !(content.is_empty() || content.starts_with('#') || directive);
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        (Piece { text, first_line }, filled)
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        while !self.rest.is_empty() {
            let (piece, filled) = self.cut();
            if filled {
                return Some(piece);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_split_at_their_markers() {
        for (text, expected) in [
            ("", vec![]),
            ("a: 1\n", vec![("a: 1\n", 1)]),
            ("---\na: 1\n---\nb: 2", vec![("---\na: 1\n", 1), ("---\nb: 2", 3)]),
            ("---\r\na: 1\r\n---\r\nb: 2", vec![("---\r\na: 1\r\n", 1), ("---\r\nb: 2", 3)]),
            ("# about\n\n---\na: 1\n", vec![("# about\n\n---\na: 1\n", 1)]),
            ("%YAML 1.2\n---\na: 1\n", vec![("%YAML 1.2\n---\na: 1\n", 1)]),
            ("---\n---\n# none\n---\na: 1\n---\n", vec![("---\na: 1\n", 4)]),
            ("a: 1\n...\n---\nb: 2\n", vec![("a: 1\n...\n", 1), ("---\nb: 2\n", 3)]),
            ("--- {a: 1}\n--- {b: 2}\n", vec![("--- {a: 1}\n", 1), ("--- {b: 2}\n", 2)]),
            ("a: |\n  ---\n  x\n---b: 1\n", vec![("a: |\n  ---\n  x\n---b: 1\n", 1)]),
        ] {
            let pieces: Vec<_> = Pieces::new(text).map(|p| (p.text, p.first_line)).collect();
            assert_eq!(pieces, expected, "{text:?}");
        }
    }

    #[test]
    fn encodings() {
        let wide = |order: fn(u16) -> [u8; 2]| "\u{feff}kind: ä".encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for bytes in [wide(u16::to_le_bytes), wide(u16::to_be_bytes), "\u{feff}kind: ä".into(), "kind: ä".into()] {
            assert_eq!(decode(&bytes).as_deref(), Ok("kind: ä"), "{bytes:?}");
        }
        for bytes in [&b"\xff"[..], b"\xff\xfe\x00", b"\xff\xfe\x00\xd8", b"a\xc3"] {
            let decoded = decode(bytes);
            assert!(decoded.is_err() || bytes.len() == 3, "{bytes:?}: {decoded:?}");
        }
    }
}
