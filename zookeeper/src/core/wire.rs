//! Jute, the encoding of ZooKeeper's messages: big-endian integers, and a length before each list
//! or buffer. Pure. It allocates nothing for bytes that have not arrived.

use std::fmt;

/// Why bytes from a server cannot be decoded. Such bytes end their connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Appends the fields of a message.
pub(crate) trait Put {
    fn put_int(&mut self, value: i32);
    fn put_long(&mut self, value: i64);
    fn put_bool(&mut self, value: bool);
    fn put_buffer(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_int(&mut self, value: i32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_long(&mut self, value: i64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_bool(&mut self, value: bool) {
        self.push(value.into());
    }

    /// A buffer that is too long for its length field also makes the frame too long to be sent.
    fn put_buffer(&mut self, bytes: &[u8]) {
        self.put_int(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.extend_from_slice(bytes);
    }
}

/// Takes the fields of a message.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize, what: &str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| {
            let left = self.0.len();
            Malformed(format!("{what} of {length} bytes, but only {left} are left"))
        })?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.array("a number").map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.array("a number").map(i64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.array("a boolean")? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(Malformed(format!("{other} as a boolean"))),
        }
    }

    /// Reads a buffer. A length of -1 stands for null, which counts as empty.
    pub(crate) fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        match self.int()? {
            -1 => Ok(&[]),
            length => {
                let length = usize::try_from(length)
                    .map_err(|_| Malformed(format!("a buffer of {length} bytes")))?;
                self.take(length, "a buffer")
            }
        }
    }

    pub(crate) fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.buffer()?;
        str::from_utf8(bytes)
            .map_err(|error| Malformed(format!("a text that is not UTF-8: {error}")))
    }

    /// Reads the number of elements of a list, each of at least `least` bytes.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = match self.int()? {
            -1 => 0,
            count => count,
        };
        let left = self.0.len();
        let count = usize::try_from(count).ok().filter(|&count| count <= left / least);
        count.ok_or_else(|| {
            Malformed(format!("a list that does not fit into the {left} bytes left"))
        })
    }

    /// Reads a list of these elements.
    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        element: impl Fn(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.count(least)?;
        let mut list = Vec::with_capacity(count);
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Malformed(format!("{left} bytes too many"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_count_alone_allocates_nothing() {
        let mut bytes = 3_i32.to_be_bytes().to_vec();
        bytes.extend([7; 12]);
        let list = Reader(&bytes).list(4, Reader::int).expect("a list");
        assert_eq!((list.len(), list.capacity()), (3, 3));
        // A list with this many elements would need 16 GiB.
        bytes[..4].copy_from_slice(&i32::MAX.to_be_bytes());
        let refused =
            Reader(&bytes).list(4, |_| -> Result<i64, Malformed> { panic!("no element") });
        assert!(refused.is_err(), "{refused:?}");
    }
}
