"""The commands about CRD tarballs."""
