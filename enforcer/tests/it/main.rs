//! Integration tests of the enforcer: one binary.

mod backend_contract;
