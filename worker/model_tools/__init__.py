"""What a person does to a model: add it, inspect it, verify it, ask whether it can do a job."""
