"""Converts built-in kinds between the versions that an apiserver serves (k8s.io/kubernetes pkg/apis, v1.36)."""
