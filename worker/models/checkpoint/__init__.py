"""Published checkpoints, config.json and tensors, read without torch."""
