"""Getting a tarball over HTTP, within limits of time, size and place (research 6.4)."""
