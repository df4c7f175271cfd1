"""CRD tarballs of Karmada: where they come from, whether they are whole, and where they are kept (seed 003)."""
