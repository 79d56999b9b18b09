//! Checks that the tests named in the guide exist, and that its program is the tested one.

use std::fs;
use std::path::Path;

#[test]
fn tests_named_by_the_guide_exist() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(package.join("../../src/guide/other_clients.md")).unwrap();
    let table = fs::read_to_string(package.join("tests/it/main.rs")).unwrap();
    let quoted = page.split('`').skip(1).step_by(2);
    let is_name = |text: &&str| {
        text.len() > 25 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let named: Vec<&str> = quoted.filter(is_name).collect();
    println!("{named:#?}");
    assert!(named.len() >= 12, "the table has lost its tests");
    for name in named {
        assert_eq!(table.matches(&format!("\n    {name}:")).count(), 1, "{name}");
    }
}

#[test]
fn permit_of_the_guide_is_the_tested_one() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(package.join("../../src/guide/from_kazoo.md")).unwrap();
    let code = fs::read_to_string(package.join("../peers/kazoo_permit.py")).unwrap();
    let (_about, code) = code.split_once("\n\n").unwrap();
    assert!(page.contains(code), "the page shows another program");
}
