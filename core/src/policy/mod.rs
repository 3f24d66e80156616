//! What policies mean: the compiler, its tables and the questions they answer; and, apart from all that, the
//! oracle.

pub mod change;
pub mod oracle;
