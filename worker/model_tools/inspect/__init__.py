"""`kvjobs models inspect`: all that can be said of a model folder."""
