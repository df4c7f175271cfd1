"""Tarballs: whether they are whole, harmless and full of CRDs, and unpacking them (research 6.5)."""
