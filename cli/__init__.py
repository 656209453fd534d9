"""The `kernelzoo` command: one module per subcommand."""
