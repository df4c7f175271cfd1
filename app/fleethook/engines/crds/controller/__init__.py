"""The controller for ``Karmada`` objects: fetches their CRD tarballs, and reports the result in their status."""
