"""The view models of the pages."""
