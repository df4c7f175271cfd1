"""The rules of kube-apiserver for workloads, beyond the types of their fields."""
