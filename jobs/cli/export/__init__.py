"""What an export is made of: which documents, which of their values, which format, which file."""
