"""Native graphs of translation models: slots of a resident KV cache, continuous batching, a screened target head."""
