"""The controller for ``Karmada`` objects: their CRD tarballs in the cache, and what came of it in their status."""
