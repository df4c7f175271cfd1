"""Hook configurations: those of others, which the chain calls, and the one of this server."""
