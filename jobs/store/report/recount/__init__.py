"""The counters and rollups of a job, counted again."""
