"""Reads the credentials for webhooks: the kubeconfig that an AdmissionConfiguration names (k8s.io/apiserver)."""
