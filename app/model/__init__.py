"""API types and the facts of the Kubernetes API that the engines share. Pure: no I/O, no clock, no settings."""
