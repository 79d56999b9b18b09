//! Lists of names, each stored in two allocations, whatever its length.

use std::{fmt, slice};

/// The names of a node's children, stored in one string instead of a `String` for each.
///
/// ```
/// use zoolock_zookeeper::Names;
///
/// let names: Names = ["b", "c", "a"].into_iter().collect();
/// assert!(names.contains("a"));
/// assert_eq!(names.iter().min(), Some("a"));
/// for name in &names {
///     println!("{name}, one of {}", names.len());
/// }
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Names {
    text: String,
    lengths: Vec<usize>,
}

impl Names {
    /// Creates a list with room for this many names of this many bytes in all.
    pub(crate) fn with_capacity(count: usize, bytes: usize) -> Names {
        Names { text: String::with_capacity(bytes), lengths: Vec::with_capacity(count) }
    }

    pub(crate) fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.lengths.push(name.len());
    }

    /// Returns the number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Returns whether there are no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Returns an iterator over the names.
    pub fn iter(&self) -> NamesIter<'_> {
        NamesIter { text: &self.text, lengths: self.lengths.iter() }
    }

    /// Returns whether the list contains `name`. Compares it with each name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|other| other == name)
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Names {
        let mut all = Names::default();
        names.into_iter().for_each(|name| all.push(name.as_ref()));
        all
    }
}

impl<const N: usize> PartialEq<[&str; N]> for Names {
    fn eq(&self, other: &[&str; N]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}

impl<'a> IntoIterator for &'a Names {
    type Item = &'a str;
    type IntoIter = NamesIter<'a>;

    fn into_iter(self) -> NamesIter<'a> {
        self.iter()
    }
}

/// The iterator of [`Names::iter`].
#[derive(Debug, Clone)]
#[must_use = "iterators are lazy and do nothing unless consumed"]
pub struct NamesIter<'a> {
    /// The text of the names that are left.
    text: &'a str,
    lengths: slice::Iter<'a, usize>,
}

impl<'a> Iterator for NamesIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (name, rest) = self.text.split_at(*self.lengths.next()?);
        self.text = rest;
        Some(name)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.lengths.size_hint()
    }
}

impl ExactSizeIterator for NamesIter<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_as_they_were_put_in() {
        // Some of the names are empty, and some contain characters of several bytes.
        let given = ["", "a", "stra\u{df}e", "", "a\u{1f512}"];
        for given in [&given[..], &[]] {
            let names: Names = given.iter().copied().collect();
            assert_eq!(names.iter().collect::<Vec<_>>(), given);
            assert_eq!(format!("{names:?}"), format!("{given:?}"));
            assert_eq!((names.len(), names.is_empty()), (given.len(), given.is_empty()));
            assert!(given.iter().all(|name| names.contains(name)) && !names.contains("b"));
            let mut iter = (&names).into_iter();
            for left in (0..given.len()).rev() {
                iter.next().unwrap();
                assert_eq!(iter.len(), left);
            }
            assert_eq!(iter.next(), None);
        }
    }

    #[test]
    fn names_differ_by_their_boundaries() {
        let [one, other] = [["ab", "c"], ["a", "bc"]].map(Names::from_iter);
        assert_ne!(one, other);
        assert_eq!(one, ["ab", "c"]);
        assert_ne!(one, ["ab"]);
        assert_ne!(one, ["ab", "c", ""]);
        for name in ["a", "b", "bc", "abc", ""] {
            assert!(!one.contains(name), "{name:?} in {one:?}");
        }
    }
}
