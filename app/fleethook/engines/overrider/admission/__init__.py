"""Admission of overriders, subjects and workloads."""
