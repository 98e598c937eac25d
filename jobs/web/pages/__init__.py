"""A file a page: its parameters, what it reads, what it says."""
