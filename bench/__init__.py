"""Benchmarks: each file here is a command, `python -m bench.NAME`. Nothing in the packages imports them."""
