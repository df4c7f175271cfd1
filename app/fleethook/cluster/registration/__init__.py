"""Telling an apiserver about this server: webhook configurations and custom resource definitions, from one place."""
