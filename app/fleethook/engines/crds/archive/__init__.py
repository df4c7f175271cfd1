"""Verifies and unpacks CRD tarballs: gzip, tar, paths and content."""
