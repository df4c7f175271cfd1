"""The routes of logical clusters, and the right to use them."""
