//! x
#[test]
fn it_is_there() { println!("{}", env!("CARGO_BIN_EXE_zoolock")); }
