"""`kvjobs models verify`: compare a model with itself, its checkpoint, and other precisions."""
