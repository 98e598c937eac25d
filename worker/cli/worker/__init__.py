"""`kvjobs worker`: running a worker, and the commands that list and ping the workers."""
