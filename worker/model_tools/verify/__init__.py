"""`kvjobs models verify`: a model compared with its checkpoint, with itself, and with other precisions."""
