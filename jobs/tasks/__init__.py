"""The tasks, each declared once as plain data: its options, its results, and how they are named and shown."""
