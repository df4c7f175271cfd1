"""The documentation site: its navigation, its links to the repository, and the generated reference."""
