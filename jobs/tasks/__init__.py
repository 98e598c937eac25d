"""The tasks, each declared once as plain data: what its results are, and what is said of them."""
