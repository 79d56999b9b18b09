//! A comparison of two frames.

use std::fmt::Write;

use super::mask::Sent;

const ROW: usize = 16;

/// The differing frames of a step in hexadecimal: `-` for Java's, `+` for ours.
pub(crate) fn of(theirs: &Sent, ours: &Sent) -> String {
    let mut text = String::new();
    for index in 0..theirs.frames.len().max(ours.frames.len()) {
        let (their, our) = (theirs.frames.get(index), ours.frames.get(index));
        if their == our {
            continue;
        }
        let kind =
            |frame: Option<&super::mask::Masked>| frame.map_or("nothing", |frame| frame.kind);
        let (number, java, us) = (index + 1, kind(their), kind(our));
        let _ = writeln!(text, "  frame {number}: Java sends {java}, this client {us}");
        let [their, our] = [their, our].map(|frame| frame.map_or(&[][..], |frame| &frame.bytes));
        rows(&mut text, their, our);
    }
    text
}

fn rows(text: &mut String, theirs: &[u8], ours: &[u8]) {
    for start in (0..theirs.len().max(ours.len())).step_by(ROW) {
        let row = |bytes: &[u8]| {
            let end = bytes.len().min(start + ROW);
            bytes.get(start..end).unwrap_or_default().to_vec()
        };
        let (their, our) = (row(theirs), row(ours));
        if their == our {
            line(text, ' ', start, &our);
        } else {
            line(text, '-', start, &their);
            line(text, '+', start, &our);
        }
    }
}

fn line(text: &mut String, sign: char, start: usize, row: &[u8]) {
    if row.is_empty() {
        return;
    }
    let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
    let shown = row.iter().map(|&byte| match byte {
        b' '..=b'~' => char::from(byte),
        _ => '.',
    });
    let shown: String = shown.collect();
    let _ = writeln!(text, "  {sign} {start:04x}  {:<47}  {shown}", hex.join(" "));
}
