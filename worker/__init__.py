"""How it is done: the process that leases shards, and the engines inside it."""
