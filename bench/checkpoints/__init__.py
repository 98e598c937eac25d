"""Models to measure: random ones of a given size, those recovered from native graphs, and their exports."""
