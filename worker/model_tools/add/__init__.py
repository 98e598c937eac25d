"""`kvjobs models add`: from the hub, a checkpoint or an export to a folder that a worker can open."""
