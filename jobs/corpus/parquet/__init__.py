"""Parquet corpora: a process of its own reads the file and writes its rows as JSON Lines."""

# Metadata of a column whose text is JSON: exports write it, corpora read it.
JSON_MARK = {b"kvjobs": b"json"}
