"""What the benches share: engines in processes of their own, works, rows, tables, servers."""
