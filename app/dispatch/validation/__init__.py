"""What an apiserver refuses in a webhook configuration, and what is odd about one (research 2.16)."""
