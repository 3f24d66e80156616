//! How much input is read before netlab says that it is too much.
//!
//! Invariant: whatever the text, reading it costs at most what the budget names; going over is a diagnostic of its
//! own, never a crash. The defaults take real clusters (a dump of 10,000 pods) and refuse bombs.

/// The limits of [`crate::input::load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes in one text.
    pub text_bytes: usize,
    /// Bytes in all texts together.
    pub total_bytes: usize,
    /// Values in one document; a long string counts as several.
    pub values: usize,
    /// Values that anchors and aliases of one document may copy.
    pub alias_values: usize,
    /// How deep values may nest. The deepest field that the API knows lies at about 20.
    pub depth: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            text_bytes: 64 << 20,
            total_bytes: 512 << 20,
            values: 4_000_000,
            alias_values: 100_000,
            depth: 100,
        }
    }
}
