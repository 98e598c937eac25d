"""What a user does with a model: add it, inspect it, verify it, check whether it can run a job."""
