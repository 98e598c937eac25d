"""`kvjobs models inspect`: a description of a model folder, and its problems."""
