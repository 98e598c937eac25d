"""Processes that a benchmark starts: engines, peers, servers, workers."""
