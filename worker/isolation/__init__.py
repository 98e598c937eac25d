"""Documents that fail or kill their process: found by bisecting a batch, processed in a disposable process."""
