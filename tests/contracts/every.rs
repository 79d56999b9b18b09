//! What every kind of lock promises: contracts over the table of subjects.

mod ending;
mod options;
mod outside;
