"""The CRDs of an unpacked tarball, patched for an instance, and into its API server (research 2.5)."""
