"""Compiles and evaluates match conditions in CEL, with kube-apiserver's variables, functions and cost limits."""
