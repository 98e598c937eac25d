"""Submitting a corpus as a job. A submit that was killed continues where it stopped when it is repeated."""
