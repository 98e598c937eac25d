"""A worker with a broker: hints wake it, and it sends hints for the whole fleet."""
