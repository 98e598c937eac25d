"""Checkpoints as people publish them: config.json and tensors, read without torch."""
