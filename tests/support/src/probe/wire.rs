//! The parts of ZooKeeper's wire format that the probe needs: big-endian numbers, and strings and buffers, which are
//! preceded by their lengths.

use std::io;

/// Builds a request.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn int(mut self, value: i32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn bool(mut self, value: bool) -> Self {
        self.0.push(value.into());
        self
    }

    pub(crate) fn buffer(self, value: &[u8]) -> Self {
        let mut next = self.int(value.len() as i32);
        next.0.extend(value);
        next
    }

    pub(crate) fn string(self, value: &str) -> Self {
        self.buffer(value.as_bytes())
    }

    /// Returns the bytes as they are sent, preceded by their length.
    pub(crate) fn frame(self) -> Vec<u8> {
        Writer::default().buffer(&self.0).0
    }

    pub(crate) fn append(mut self, other: &Writer) -> Self {
        self.0.extend(&other.0);
        self
    }
}

/// Parses an answer. Every read fails if the input is too short.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn int(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> io::Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a buffer. A null buffer, whose length is -1, counts as an empty one.
    pub(crate) fn buffer(&mut self) -> io::Result<&'a [u8]> {
        let length = self.int()?.max(0) as usize;
        self.bytes(length)
    }

    pub(crate) fn string(&mut self) -> io::Result<String> {
        let bytes = self.buffer()?;
        String::from_utf8(bytes.to_vec())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    pub(crate) fn strings(&mut self) -> io::Result<Vec<String>> {
        let count = self.int()?.max(0);
        (0..count).map(|_| self.string()).collect()
    }

    fn bytes(&mut self, length: usize) -> io::Result<&'a [u8]> {
        let short = || io::Error::new(io::ErrorKind::InvalidData, "a frame ends too early");
        let (head, tail) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }
}
