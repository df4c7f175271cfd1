"""The log lines of a server, and its lines about answered reviews."""
