"""Renders a workload by a plan, keeps the members of others, and undoes a render."""
