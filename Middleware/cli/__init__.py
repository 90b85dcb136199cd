"""The command line: one module a command, each with `main(arguments) -> exit code`."""
