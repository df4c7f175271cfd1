"""Compiles overriders to MutatingAdmissionPolicies, so that kube-apiserver applies them without a webhook."""
