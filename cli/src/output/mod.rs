//! How answers look: streams, colour, marks, columns, and the same answer as JSON or YAML.
//!
//! Invariant: data goes to standard output and everything else to standard error; with `-o json` standard
//! output holds nothing but JSON. Colour and marks never carry a meaning that the words do not.

pub(crate) mod busy;
pub(crate) mod claims;
pub(crate) mod connections;
pub(crate) mod describe;
pub(crate) mod diagnosis;
pub(crate) mod diagnostic;
pub(crate) mod diff;
pub(crate) mod dns_plan;
pub(crate) mod dns_query;
pub(crate) mod evaluation;
pub(crate) mod layout;
pub(crate) mod lint;
mod markup;
pub(crate) mod matrix;
pub(crate) mod proof;
pub(crate) mod sarif;
pub(crate) mod service;
pub(crate) mod service_compare;
pub(crate) mod service_conntrack;
pub(crate) mod service_trace;
pub(crate) mod style;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod terminal;
mod what_if;
mod yaml;
