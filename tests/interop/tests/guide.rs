//! Checks that the guide's table of other clients agrees with the tests.

use std::fs;
use std::path::Path;

#[test]
fn tests_named_by_the_guide_exist() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(package.join("../../src/guide/other_clients.md")).unwrap();
    let mut sources = String::new();
    for file in fs::read_dir(package.join("tests")).unwrap() {
        sources += &fs::read_to_string(file.unwrap().path()).unwrap();
    }
    let quoted = page.split('`').skip(1).step_by(2);
    let is_name = |text: &&str| text.len() > 25 && text.bytes().all(is_of_a_name);
    let named: Vec<&str> = quoted.filter(is_name).collect();
    println!("{named:#?}");
    assert!(named.len() >= 12, "the table has lost its tests");
    for name in named {
        let test = format!("#[test]\nfn {name}()");
        assert_eq!(sources.matches(&test).count(), 1, "{name}");
    }
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'_'
}
