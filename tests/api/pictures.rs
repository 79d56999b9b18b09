//! Checks that the tree contains the programs that generate the pictures, so that the pictures can be changed.

use std::io::ErrorKind;
use std::process::Command;

const PROGRAMS: [&str; 2] = ["src/guide/pictures/pictures.py", "cli/recording/takeover.py"];

#[test]
fn pictures_are_those_that_their_programs_draw() {
    for program in PROGRAMS {
        let output =
            Command::new("python3").arg(crate::root().join(program)).arg("--check").output();
        let output = match output {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skipped: there is no python3");
                return;
            }
            output => output.unwrap_or_else(|error| panic!("python3: {error}")),
        };
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {stderr}");
    }
}
