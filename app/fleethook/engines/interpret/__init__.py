"""Interprets resources for Karmada: replicas, status, health and dependencies of built-in and custom kinds."""
