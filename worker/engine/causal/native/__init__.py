"""Native graphs of causal models: tokens packed without padding, log-probabilities computed in the graph."""
