"""The native graphs of a translation model, from one description of its network."""
