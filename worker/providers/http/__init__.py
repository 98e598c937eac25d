"""JSON over HTTP, for providers that are servers: time-outs, retries, many documents at a time."""
