"""Objects of an apiserver, kept current by list and watch."""
