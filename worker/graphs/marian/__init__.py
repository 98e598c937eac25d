"""The native graphs of a translation model: Marian."""
