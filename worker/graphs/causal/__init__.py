"""The native graphs of a causal language model."""
