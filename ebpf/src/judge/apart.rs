//! The parts of a judgement that the kernel's verifier takes one by one.
//!
//! It follows every combination of what is in registers and on the stack, through every call: a part that is reached in
//! many ways would be verified as many times. Invariant: a part takes nothing but a small number, finds all else in
//! [`Scratch`] and the tables, and leaves its result there.

use super::{Scratch, Tables, Walk, row};
use crate::abi::{Device, Direction};
use crate::packet::Bytes;

/// A part that needs nothing but the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// Find the one row that decides for a flow that was opened in this direction, with whoever has the address.
    Endpoint(Direction),
    /// Decide for an address that this node translates, if it is one.
    Service,
    /// Judge the target with this index of the Service that was found.
    Target(usize),
}

impl Apart {
    /// Does it.
    #[inline(always)]
    pub fn run<T: Tables>(self, tables: &T, scratch: &mut Scratch) {
        match self {
            Self::Endpoint(direction) => row::endpoint(tables, scratch, direction),
            Self::Service => row::service(tables, scratch),
            Self::Target(index) => row::target(tables, scratch, index),
        }
    }
}

/// A part that needs the packet and its pod too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// Look for the flow that an ICMP error is about.
    IcmpError,
    /// Judge what no flow answers for.
    NewFlow,
    /// Judge a segment of a connection that was not seen to begin.
    MiddleOfFlow,
}

impl Walked {
    /// Does it.
    #[inline(always)]
    pub fn run<T: Tables, B: Bytes>(self, tables: &T, bytes: &B, device: &Device, scratch: &mut Scratch) {
        let walk = Walk { tables, direction: scratch.hook.direction, device };
        match self {
            Self::IcmpError => walk.icmp_error(bytes, scratch),
            Self::NewFlow => walk.new_flow(bytes, scratch),
            Self::MiddleOfFlow => walk.middle_of_flow(scratch),
        }
    }
}
