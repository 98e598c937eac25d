"""Native graphs of causal models: packed tokens, rows of a cache, log-probabilities in the graph."""
