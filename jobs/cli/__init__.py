"""The command line. Each command parses its options, calls one function, and prints.

    commands/   a file a command (those of the worker are in `worker.cli`)
    export/     results as files: formats, columns, the lines of the corpus
    render/     what people see: tables, pages, progress, messages

Standard output is data; messages and progress go to standard error. A command returns its exit code, or None for 0. It
raises errors: `main` alone turns them into messages and exit codes.
"""
