"""The ``fleethook`` command: one module per subcommand, imported when the subcommand runs."""
