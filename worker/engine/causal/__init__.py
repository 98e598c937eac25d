"""Causal language models: sequences of ids in, the log-probability of each token out."""
