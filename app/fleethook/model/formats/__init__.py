"""Texts with a format: names, labels, quantities, URLs, image references, and the errors about them. Pure."""
