"""Interpreters of custom resources that follow the conventions of Kubernetes' API.

They serve kinds that the bundle lists without a script
(``app/fleethook/engines/interpret/bundle/<group>/conventions.yaml``), and kinds that no other layer knows. The
functions are pure and do not fail for missing members.
"""
