//! Making the node that stands for a place in the queue, and the directories above it.

mod directories;
mod nodes;
mod permissions;
