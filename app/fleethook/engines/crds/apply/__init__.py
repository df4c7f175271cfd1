"""Renders the CRDs of a tarball for an instance, and applies them to its API server."""
