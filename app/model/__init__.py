"""API types and rules of the Kubernetes API that engines share. Pure: no I/O, no clock, no settings."""
