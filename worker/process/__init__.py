"""The worker as processes: a parent and its child, wake-ups, leases kept alive, a watchdog, limits of memory."""
