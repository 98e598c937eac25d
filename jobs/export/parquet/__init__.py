"""Exports as parquet: typed columns, written row group by row group."""
