"""The cache of CRD tarballs, shared by threads and processes."""
