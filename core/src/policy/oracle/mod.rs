//! The literal evaluator.
