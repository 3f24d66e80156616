//! The judgement on the host: tables in maps of the standard library, a clock that is set, sockets that are said.

mod forged;
mod judge;
mod packet;
mod sampling;
mod services;
mod tables;
