use proptest::prelude::*;

use super::*;

const LIST: &str = include_str!("../../tests/data/list.yaml");

fn dump(file: &str, text: &str) -> Dump {
    let mut reader = DumpReader::default();
    reader.read_bytes(file, text.as_bytes());
    reader.finish()
}

fn problems(dump: &Dump) -> Vec<String> {
    dump.problems.iter().map(ToString::to_string).collect()
}

/// Namespaces and names of the pods, in order.
fn pods(dump: &Dump) -> Vec<String> {
    dump.pods.iter().map(|pod| format!("{}/{}", pod.namespace(), pod.name())).collect()
}

#[test]
fn what_kubectl_writes() {
    let dump = dump("list.yaml", LIST);
    assert_eq!(
        problems(&dump),
        [
            "list.yaml: object 0 (Node gpu-1), field spec.taints[1].effect: \"Whenever\" is not an effect, and the \
             taint was left out; write NoSchedule, PreferNoSchedule or NoExecute",
            "list.yaml: object 4 (Pod serving/malformed), field spec.containers[1].ports: invalid type: integer `80`, \
             expected a sequence, and the Pod was left out; write it as the API documents it",
        ]
    );
    assert_eq!(pods(&dump), ["serving/done", "serving/infer-1", "default/waiting"]);
    assert_eq!(dump.ignored, [("apps/v1/Deployment".to_owned(), 1)].into());
    // Not the later deletionTimestamp: that is the end of a grace period.
    assert_eq!(dump.newest, crate::parse_timestamp("2026-11-03T09:00:00.500Z").ok());
    let node = &dump.nodes[0];
    assert_eq!((node.name.as_str(), node.cards.len(), node.taints.len()), ("gpu-1", 2, 1));
    assert_eq!(node.allocatable["cpu"].milli_value(), 127_600);
    assert_eq!(dump.reports[0].devices[0].card.uuid, "GPU-1");
    let [PodFact::Finished(_), PodFact::Live(bound), PodFact::Live(waiting)] = dump.pods.as_slice() else {
        panic!("{:?}", dump.pods)
    };
    let assignment = bound.assignment.as_ref().expect("bound");
    assert_eq!(assignment.allocation.as_ref().map(|a| a.containers.len()), Some(1));
    assert!(waiting.terminating && waiting.assignment.is_none());
    assert_eq!(&*waiting.uid.0, "default/waiting");
}

#[test]
fn yaml_and_json_say_the_same() {
    let value: serde_json::Value = serde_saphyr::from_str(LIST).expect("YAML");
    let json = serde_json::to_string_pretty(&value).expect("JSON");
    for name in ["list.yaml", "list.json", "-"] {
        let (mut from_yaml, mut from_json) = (dump(name, LIST), dump(name, &json));
        if name == "list.json" {
            from_yaml = dump("list.yaml", LIST);
            from_yaml.problems.clear();
            from_json.problems.clear();
        }
        assert_eq!(from_yaml, from_json, "{name}");
    }
}

#[test]
fn a_broken_document_does_not_hide_the_others() {
    let pod = |name: &str| format!("kind: Pod\nmetadata:\n  name: {name}\n");
    let text = format!("---\n{}---\n{}  name: b\nspec: [\n---\nhello\n---\n{}", pod("a"), pod("b"), pod("c"));
    let dump = dump("d.yaml", &text);
    assert_eq!(pods(&dump), ["default/a", "default/c"]);
    let problems = problems(&dump);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("d.yaml: document 1, line 9: the document cannot be read"), "{}", problems[0]);
    assert!(problems[1].starts_with("d.yaml: document 2, line 11: the document cannot be read"), "{}", problems[1]);
    for problem in &problems {
        assert!(!problem.contains('\n') && !problem.contains(" at line "), "{problem}");
    }
}

#[test]
fn nothing_of_a_broken_list_counts() {
    let item = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}"#;
    let text = format!("{{\"kind\":\"List\",\n\"items\":[{item},{item}");
    for name in ["cut.json", "cut.yaml"] {
        let dump = dump(name, &text);
        assert_eq!(dump.pods.len(), 0, "{name}");
        let problems = problems(&dump);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with(&format!("{name}: document 0, line 2: ")), "{problems:?}");
    }
}

#[test]
fn lists_of_one_kind_and_documents_in_a_row() {
    let raw = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}},null,{"metadata":{}}]}"#;
    let sorted = r#"{"apiVersion":"v1","items":[{"metadata":{"name":"b"}}],"kind":"PodList"}"#;
    let nested = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{sorted},{{"metadata":{{"name":"x"}}}}]}}"#)
        .replace("\"b\"", "\"c\"");
    let empty = r#"{"apiVersion":"v1","kind":"List","items":null}"#;
    let other = r#"{"apiVersion":"x/v1","kind":"Basket","items":[{"kind":"Pod","metadata":{"name":"no"}}]}"#;
    let foreign = r#"{"apiVersion":"config.example/v1","kind":"Node","metadata":{"name":"no"}}"#;
    let dump = dump("-", &[raw, sorted, &nested, empty, other, foreign].join("\n"));
    assert_eq!(pods(&dump), ["default/a", "default/b", "default/c"]);
    assert_eq!(dump.ignored, [("x/v1/Basket".to_owned(), 1), ("config.example/v1/Node".to_owned(), 1)].into());
    let problems = problems(&dump);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(problems[0].starts_with("-: object 1: an object is expected, not null"), "{problems:?}");
    assert!(problems[1].starts_with("-: object 2, field metadata.name: it is missing"), "{problems:?}");
    assert!(problems[2].starts_with("-: object 5 (object default/x), field kind: it is missing"), "{problems:?}");
}

#[test]
fn later_definitions_count() {
    let mut reader = DumpReader::default();
    reader.read_bytes("a.yaml", b"kind: Pod\nmetadata: {name: p, uid: old}\n---\nkind: Node\nmetadata: {name: p}\n");
    reader.read_bytes("b.yaml", b"kind: Pod\nmetadata: {name: p, uid: new, namespace: default}\n");
    let dump = reader.finish();
    assert_eq!(&*dump.pods[0].uid().0, "new");
    assert_eq!(
        problems(&dump),
        ["b.yaml: object 0 (Pod default/p): it stands in a.yaml: object 0 too, and this later definition counts; \
          remove one of the two"]
    );
}

#[test]
fn copied_uids_are_told_apart() {
    let dump = dump("d.yaml", "kind: Pod\nmetadata: {name: b, uid: u}\n---\nkind: Pod\nmetadata: {name: a, uid: u}\n");
    let uids: Vec<_> = dump.pods.iter().map(|p| p.uid().0.to_string()).collect();
    assert_eq!(uids, ["u", "default/b"]);
    assert!(problems(&dump)[0].starts_with("d.yaml: object 0 (Pod default/b), field metadata.uid: another pod"));
}

#[test]
fn pods_come_by_age_then_name() {
    let pod = |namespace: &str, name: &str, created: &str| {
        format!("---\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, creationTimestamp: {created}}}\n")
    };
    let (one, two) = ("1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z");
    let text =
        pod("b", "a", two) + &pod("a", "z", two) + &pod("z", "z", one) + &pod("a", "b", two) + &pod("c", "c", "null");
    assert_eq!(pods(&dump("d.yaml", &text)), ["c/c", "z/z", "a/b", "a/z", "b/a"]);
}

#[test]
fn numbers_texts_and_keys_as_yaml_has_them() {
    let text = "kind: Node\nmetadata: {name: n}\nstatus:\n  allocatable:\n    cpu: 0.5\n    memory: 1e3\n    pods: 110\n    \
                big: 99999999999999999999999999\n    inf: .inf\n    5: 1\n";
    let dump = dump("d.yaml", text);
    let amounts: Vec<_> = dump.nodes[0].allocatable.iter().map(|(k, q)| format!("{k}={q}")).collect();
    assert_eq!(amounts, ["5=1", "big=9223372036854775807", "cpu=500m", "memory=1000", "pods=110"]);
    assert!(problems(&dump)[0].contains("field status.allocatable.inf"), "{:?}", problems(&dump));
}

#[test]
fn alias_bombs_are_refused_at_once() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let before = format!("*a{}", i - 1);
        text += &format!("a{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", "));
    }
    let dump = dump("bomb.yaml", &(text + "kind: Pod\nmetadata: {name: a}\n"));
    assert_eq!((dump.pods.len(), dump.problems.len()), (0, 1));
}

#[test]
fn many_objects_are_no_bomb() {
    let mut text = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
    for i in 0..30_000 {
        text += &format!("- {{apiVersion: v1, kind: Pod, metadata: {{name: p{i}, labels: {{a: b, c: d, e: f}}}}}}\n");
    }
    let dump = dump("large.yaml", &text);
    assert_eq!((dump.pods.len(), problems(&dump)), (30_000, vec![]));
}

#[test]
fn files_and_standard_input() {
    let root = tempfile::tempdir().expect("a directory");
    let file = root.path().join("nodes.yaml");
    std::fs::write(&file, "kind: Node\nmetadata: {name: n}\n").expect("written");
    let mut stdin = &b"kind: Pod\nmetadata: {name: p}\n"[..];
    let dump = read(&[root.path().to_owned(), "-".into()], &mut stdin).expect("readable");
    assert_eq!((dump.nodes.len(), dump.pods.len()), (1, 1));
    assert!(matches!(read(&[root.path().join("no.yaml")], &mut stdin), Err(DumpError::Unreadable { .. })));
}

#[test]
fn texts_that_are_not_text() {
    let mut reader = DumpReader::default();
    reader.read_bytes("bin", b"kind: \xff\xfe");
    reader.read_bytes("none", b"");
    reader.read_bytes("blank.json", b" \n");
    assert_eq!(problems(&reader.finish()), ["bin: it is not UTF-8 text, and was left out; save it as UTF-8"]);
}

/// A valid dump with some of its bytes changed, cut out or doubled.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), 0..4_u8, any::<u8>());
    let pieces = prop::sample::select(b"\n -:{}[]&*|>'\"#0-.!%\t".to_vec());
    (any::<bool>(), prop::collection::vec((edit, pieces), 1..12)).prop_map(|(json, edits)| {
        let value: serde_json::Value = serde_saphyr::from_str(LIST).expect("YAML");
        let mut bytes = if json { value.to_string().into_bytes() } else { LIST.as_bytes().to_vec() };
        for ((at, action, byte), special) in edits {
            let at = at.index(bytes.len());
            match action {
                0 => bytes[at] = byte,
                1 => bytes[at] = special,
                2 => bytes.insert(at, special),
                _ => drop(bytes.drain(at..(at + usize::from(byte) / 16).min(bytes.len()))),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), json in any::<bool>()) {
        let mut reader = DumpReader::default();
        reader.read_bytes(if json { "a.json" } else { "a.yaml" }, &bytes);
        let _ = reader.finish().problems.iter().map(ToString::to_string).count();
    }

    #[test]
    fn random_yaml_never_panics(text in "[-a: \n{}\\[\\]&*|>'\"#,?!%.0]{0,80}") {
        let dump = dump("a.yaml", &text);
        let _ = problems(&dump);
    }

    #[test]
    fn mutations_of_a_valid_dump_never_panic(bytes in mutated(), json in any::<bool>()) {
        let mut reader = DumpReader::default();
        reader.read_bytes(if json { "a.json" } else { "a.yaml" }, &bytes);
        let dump = reader.finish();
        let _ = problems(&dump);
        prop_assert!(dump.pods.len() <= 8);
    }
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{\"a\":".repeat(100_000), "? ".repeat(100_000)] {
        for prefix in ["", "x: "] {
            let dump = dump("deep.yaml", &format!("{prefix}{text}"));
            assert_eq!(dump.problems.len(), 1, "{}", &text[..4]);
        }
    }
}

#[test]
fn what_the_parser_says() {
    for (text, expected) in [
        ("a: 1\n b: 2\n", "line 2: the document cannot be read, and none of it counts (mapping values"),
        ("a: 1\na: 2\n", "line 2: the document cannot be read, and none of it counts (duplicate mapping key `a`"),
        ("a: &a [*a]\n", "line 1: the document cannot be read"),
        ("- 1\n", "line 1: the document cannot be read"),
    ] {
        let problems = problems(&dump("d.yaml", text));
        assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
    }
}

#[test]
fn texts_without_quotes_are_advised_to_have_some() {
    let dump = dump("d.yaml", "kind: Pod\nmetadata:\n  name: p\n  labels: {version: 1.10}\n");
    assert!(problems(&dump)[0].ends_with("; put it in quotes"), "{:?}", problems(&dump));
}
