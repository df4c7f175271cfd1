"""Views of recorded reviews."""
