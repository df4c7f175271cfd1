"""Registers this server with an apiserver: webhook configurations and CustomResourceDefinitions."""
