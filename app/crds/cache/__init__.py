"""Where tarballs are kept, for threads and processes at once (research 6.3)."""
