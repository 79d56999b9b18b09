//! Cuts the bytes of a server into frames: four bytes of length, then as many bytes. Pure.
//!
//! The buffer grows with the bytes that have arrived, not with the length that a frame claims.

use super::wire::Malformed;

/// The smallest space for one read.
const READ: usize = 64 * 1024;
/// A buffer that grew larger than this for one frame is freed after it.
const KEPT: usize = 4 * 1024 * 1024;

/// The bytes between the socket and the frames.
#[derive(Debug)]
pub(crate) struct Frames {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    longest: usize,
}

impl Frames {
    /// Creates an empty buffer. `longest` is the length of the longest accepted frame.
    pub(crate) fn new(longest: usize) -> Frames {
        Frames { buffer: Vec::new(), start: 0, end: 0, longest }
    }

    /// Returns the space for the next bytes, which is never empty. Call [`filled`](Self::filled)
    /// with their number.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.buffer.len() > KEPT {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end < READ / 4 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() - self.end < READ / 4 {
                let room = self.end.max(READ);
                self.buffer.resize(self.end + room, 0);
            }
        }
        &mut self.buffer[self.end..]
    }

    pub(crate) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// Returns the next whole frame, without its length.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let come = &self.buffer[self.start..self.end];
        let Some((length, rest)) = come.split_first_chunk() else {
            return Ok(None);
        };
        let claimed = u32::from_be_bytes(*length);
        let length = claimed as usize;
        if length > self.longest {
            return Err(Malformed(self.too_long(claimed)));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.start + 4;
        self.start = start + length;
        Ok(Some(&self.buffer[start..start + length]))
    }

    fn too_long(&self, claimed: u32) -> String {
        let longest = self.longest;
        match claimed.to_be_bytes() {
            // The first bytes of a TLS record that contains an alert or a handshake.
            [0x15 | 0x16, 3, ..] => {
                "the server expects TLS at this port, but this client does not use TLS".into()
            }
            bytes if bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') => {
                let text = String::from_utf8_lossy(&bytes);
                format!("the answer begins with \"{text}\": this is not a ZooKeeper server")
            }
            _ => format!("a frame of {claimed} bytes, but at most {longest} are accepted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(frames: &mut Frames, mut bytes: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut seen = Vec::new();
        while !bytes.is_empty() {
            let space = frames.space();
            let count = bytes.len().min(space.len()).min(most);
            space[..count].copy_from_slice(&bytes[..count]);
            frames.filled(count);
            bytes = &bytes[count..];
            while let Some(frame) = frames.next()? {
                seen.push(frame.to_vec());
            }
        }
        Ok(seen)
    }

    #[test]
    fn frames_do_not_depend_on_how_bytes_arrive() {
        let lengths = [0, 1, 3, 17, 64 * 1024, 300_000, 5, 0, 9_000_000, 2];
        let expected: Vec<Vec<u8>> =
            lengths.iter().map(|&length| vec![length as u8; length]).collect();
        let mut bytes = Vec::new();
        for frame in &expected {
            bytes.extend((frame.len() as u32).to_be_bytes());
            bytes.extend(frame);
        }
        for most in [7, 4096, 65_537, usize::MAX] {
            let mut frames = Frames::new(10_000_000);
            assert_eq!(feed(&mut frames, &bytes, most).as_ref(), Ok(&expected), "{most} at a time");
            frames.space();
            println!("{most} at a time: {} bytes kept", frames.buffer.len());
            assert!(frames.buffer.len() <= KEPT, "{}", frames.buffer.len());
        }
    }

    #[test]
    fn length_alone_allocates_nothing() {
        let mut frames = Frames::new(u32::MAX as usize);
        feed(&mut frames, &0x7fff_ffff_u32.to_be_bytes(), 1).unwrap();
        assert!(frames.buffer.len() <= READ, "{}", frames.buffer.len());
    }
}
