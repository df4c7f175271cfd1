"""SLSA provenance: whether an attestation proves which workflow made a tarball, checked without a network."""
