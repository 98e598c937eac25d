"""Documents that kill or fail: found by halving a batch, processed in a sandbox process."""
