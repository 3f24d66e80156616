//! What users of the library see, one topic per file.

mod e2e;
mod oracle_boundary;
mod oracle_cases;
mod oracle_generator;
