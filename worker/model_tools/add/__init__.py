"""`kvjobs models add`: make a folder that a worker can open from a checkpoint or an export, local or on the hub."""
