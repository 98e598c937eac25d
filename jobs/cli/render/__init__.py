"""What people see: tables, pages, progress, numbers and words."""
