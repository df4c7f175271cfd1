"""Views of CRD tarballs: cache entries, and the Karmada instances that use them."""
