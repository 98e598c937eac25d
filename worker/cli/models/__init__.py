"""`kvjobs models`: a file a command, and the group that holds them."""
