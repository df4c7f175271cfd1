"""The template of the workload of one node pool, from a subject of any version."""
