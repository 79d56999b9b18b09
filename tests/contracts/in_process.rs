//! All of these contracts once more, without Java.

use std::process::Command;
use std::env;

use zoolock::testing::Server;

#[test]
fn every_contract_holds_on_the_server_in_the_process() {
    let server = Server::start().unwrap();
    let begun = std::time::Instant::now();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--skip", "in_process::", "-Zunstable-options", "--report-time"]).args(env::var("XARGS").unwrap_or_default().split_whitespace())
        .env("RUSTC_BOOTSTRAP", "1")
        .env("ZOOKEEPER_CONNECT", server.connect_string())
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    println!("{:?}", begun.elapsed());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
