"""The sources that feed the store: manifests and Kubernetes."""
