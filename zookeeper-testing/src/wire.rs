//! Jute, the encoding of ZooKeeper's messages: integers are big-endian, and each list or buffer is preceded by its
//! length. No I/O.

/// The error for malformed bytes from a client, which end its connection.
#[derive(Debug)]
pub(crate) struct Malformed;

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

    fn put_buffer(&mut self, bytes: &[u8]) {
        self.put_int(bytes.len() as i32);
        self.extend_from_slice(bytes);
    }
}

/// Takes the fields of a message.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Malformed> {
        match self.array()? {
            [byte @ 0..=1] => Ok(byte == 1),
            _ => Err(Malformed),
        }
    }

    /// Returns a length. The length -1 means null, which counts as empty.
    fn length(&mut self) -> Result<usize, Malformed> {
        match self.int()? {
            -1 => Ok(0),
            length => length.try_into().map_err(|_| Malformed),
        }
    }

    pub(crate) fn buffer(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        let (buffer, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(buffer)
    }

    pub(crate) fn string(&mut self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.buffer()?).map_err(|_| Malformed)
    }

    /// Reads a list. For elements that have not arrived, no memory is allocated.
    pub(crate) fn list<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.length()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    pub(crate) fn end(&self) -> Result<(), Malformed> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Malformed),
        }
    }
}
