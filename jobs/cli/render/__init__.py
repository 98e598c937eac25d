"""What people see: tables, pages, progress, messages and errors."""
