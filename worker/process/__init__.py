"""The processes of a worker: parent and child, wake-ups, heartbeat and leases, watchdog, limits of memory."""
