"""Talking to a kube-apiserver: raw JSON over kubernetes-asyncio's authentication and transport.

Nothing here is imported before a cluster is asked for: the client library takes 0.3 s and 65 MB to load.
"""
