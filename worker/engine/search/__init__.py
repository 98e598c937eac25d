"""Greedy and beam search over the logits of one decoding step at a time."""
