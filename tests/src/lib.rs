//! Cross-program test support.
