"""Writing a corpus into the store: a job, its documents and its shards."""
