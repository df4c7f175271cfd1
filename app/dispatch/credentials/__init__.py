"""As whom webhooks are called: the kubeconfig that an AdmissionConfiguration names (k8s.io/apiserver)."""
