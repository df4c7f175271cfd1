"""YurtAppOverrider: one workload, rendered differently for each node pool (seed 004)."""
