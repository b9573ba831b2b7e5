use super::*;

fn first(text: &str) -> String {
    parse(text).unwrap_err()[0].to_string()
}

#[test]
fn keys_and_values_know_where_they_stand() {
    let node = parse("a: 1\nbb:\n  - x y\n  - {c: \"d\"}\n").unwrap();
    let (key, list) = &node.entries().unwrap()[1];
    assert_eq!((key.span.start.line, key.span.start.column), (2, 1));
    assert_eq!((key.span.end.line, key.span.end.column), (2, 3));
    let items = list.items().unwrap();
    assert_eq!(
        (items[0].span.start.column, items[0].span.end.column),
        (5, 8)
    );
    let quoted = items[1].get("c").unwrap();
    assert_eq!((quoted.span.start.column, quoted.span.end.column), (9, 12));
    assert_eq!(items[1].span.end.column, 13);
    assert_eq!((list.span.start.line, list.span.end.line), (3, 4));
}

#[test]
fn only_plain_scalars_are_numbers_or_null() {
    let node =
        parse(r#"[1, "1", 0x1F, 1_000, -1, 1.5, 1e3, .nan, .inf, 1e999, null, "null", ~, true]"#)
            .unwrap();
    let items = node.items().unwrap();
    assert_eq!(
        items.iter().map(Node::u64).collect::<Vec<_>>()[..7],
        [Some(1), None, Some(31), Some(1000), None, None, None]
    );
    assert_eq!(items[4].f64(), Some(-1.0));
    assert_eq!(items[6].f64(), Some(1000.0));
    assert!(items[7..10].iter().all(|node| node.f64().is_none()));
    assert!(items[10].is_null() && !items[11].is_null() && items[12].is_null());
    assert_eq!(items[13].bool(), Some(true));
}

#[test]
fn json_and_empty_documents_are_read() {
    let node = parse("{\"a\": [1, {\"b\": null}]}").unwrap();
    assert_eq!(node.get("a").unwrap().items().unwrap()[0].u64(), Some(1));
    assert!(parse("").unwrap().is_null());
    assert!(parse("# nothing\n").unwrap().is_null());
    assert_eq!(
        parse("---\na: 1\n...\n").unwrap().get("a").unwrap().u64(),
        Some(1)
    );
}

#[test]
fn every_duplicate_key_is_reported() {
    let problems = parse("a: 1\na: 2\nb: {c: 1, c: 2}\n").unwrap_err();
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "line 2, column 1: duplicate key `a`",
            "line 3, column 11: duplicate key `c`"
        ]
    );
}

#[test]
fn refuses_what_is_not_one_document() {
    assert!(first("a: 1\n---\nb: 2\n").contains("second document"));
    assert!(first("a: [1\n").contains("not valid YAML"));
    assert!(first("? [a]\n: 1\n").contains("a key must be text, not a list"));
    assert!(first("a: *b\n").contains("not valid YAML"));
    assert!(first("a: &a [*a]\n").contains("alias"));
}

#[test]
fn hostile_documents_hit_a_named_limit() {
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(first(&deep).contains("limit of 64 levels"));
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..10 {
        let list = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert!(first(&laughs).contains("limit of 1000000"));
    let mut chain = String::from("a0: &a0 []\n");
    for level in 1..100 {
        chain.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
    }
    assert!(first(&chain).contains("limit of 64 levels"));
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(1 << 20),
        vec!["*a"; 20].join(", ")
    );
    assert!(first(&long).contains("limit of 16 MiB"));
    assert!(first(&" ".repeat(MAX_BYTES + 1)).contains("limit of 16 MiB"));
}

#[test]
fn aliases_are_copies() {
    let node = parse("a: &x {k: 1}\nb: *x\n").unwrap();
    assert_eq!(node.get("b").unwrap().get("k").unwrap().u64(), Some(1));
    assert_eq!(node.get("b").unwrap().span.start.line, 2);
}
