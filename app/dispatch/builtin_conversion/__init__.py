"""Built-in kinds between the versions in which an apiserver serves them (k8s.io/kubernetes pkg/apis, v1.36)."""
