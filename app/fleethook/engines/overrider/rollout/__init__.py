"""Predicts the effect of an edit on running workloads: rollouts, scales, creations and deletions."""
