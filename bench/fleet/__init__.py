"""Simulated workers on one PostgreSQL: the code of real workers, with an engine that computes nothing."""
