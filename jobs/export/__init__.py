"""Exports: which documents, which of their values, in which format, to which file."""
