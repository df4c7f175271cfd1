"""Downloads a tarball over HTTP, with limits of time, size and destination."""
