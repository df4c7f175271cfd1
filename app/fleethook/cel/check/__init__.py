"""The types of an expression, and the names that kube-apiserver declares."""
