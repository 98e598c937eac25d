"""Reports for people: job summaries, failures, totals, steps, exports, workers, and their own queries."""
