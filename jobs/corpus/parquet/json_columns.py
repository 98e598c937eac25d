"""How a parquet column says that its text is JSON. Exports write it, corpora read it."""

JSON_MARK = {b"kvjobs": b"json"}  # metadata of the column
