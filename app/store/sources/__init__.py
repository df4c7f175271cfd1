"""What feeds the store."""
