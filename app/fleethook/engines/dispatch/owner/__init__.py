"""The logical cluster of a request, and the one that owns the schema of its resource."""
