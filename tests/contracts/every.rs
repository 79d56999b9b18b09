//! What every kind of lock promises with every option, said once: each test is a contract that runs over
//! the table of subjects.

mod cuts;
mod deadlines;
mod excluding;
mod granting;
mod leaving;
mod order;
mod owning;
mod places;
mod requests;
