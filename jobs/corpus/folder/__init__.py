"""A folder of files, or those that a pattern matches, as one corpus."""
