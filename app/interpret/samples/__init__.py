"""The proposal's example hooks, as a user would write them."""
