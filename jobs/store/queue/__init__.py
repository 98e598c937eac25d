"""The queue: which shards wait, who leases them, and what a lease records; nothing is lost or counted twice."""
