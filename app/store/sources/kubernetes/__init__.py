"""Objects from an apiserver, followed by list and watch."""
