"""The page of the console about CRD tarballs."""
