"""The subjects of overriders: their owners, node pools, workloads and overriders."""
