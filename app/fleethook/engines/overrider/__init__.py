"""YurtAppOverrider: one workload, rendered differently for each node pool."""
