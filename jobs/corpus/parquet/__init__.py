"""Parquet corpora: a process of its own reads the file and writes its rows as JSON Lines."""
