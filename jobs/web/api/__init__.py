"""/api: what the command line does, over HTTP. Each route reads options by their declarations, calls one function of
`jobs.operations`, `jobs.control` or `jobs.store.report`, and answers JSON, or the bytes of an export.
"""
