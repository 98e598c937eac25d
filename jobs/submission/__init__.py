"""A corpus becomes a job, from wherever an earlier submit was killed."""
