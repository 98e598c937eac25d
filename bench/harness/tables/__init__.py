"""Reports of the benchmarks for people."""
