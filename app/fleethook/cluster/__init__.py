"""Sends requests to kube-apiserver: raw JSON over kubernetes-asyncio's authentication and transport.

Import these modules only in code paths that need a cluster: the client library takes 0.1 s and 5 MB to load.
"""
