"""CRD tarballs of Karmada: downloading, verifying, caching and applying them."""
