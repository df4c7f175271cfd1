"""Input of commands: manifests, clusters and changes of them."""
