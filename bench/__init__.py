"""Benchmarks: each module here is a command, `python -m bench.NAME`. Nothing in the package imports them."""
