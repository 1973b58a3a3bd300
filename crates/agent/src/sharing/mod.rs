//! How containers that share a card are held apart.

pub mod mps;
