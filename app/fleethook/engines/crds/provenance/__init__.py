"""SLSA provenance: verifies offline that an attestation proves the workflow that built a tarball."""
