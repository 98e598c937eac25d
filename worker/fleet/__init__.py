"""A worker with a broker: Celery hears hints, and nothing else."""
