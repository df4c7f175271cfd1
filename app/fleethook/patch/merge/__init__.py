"""JSON merge patch, strategic merge patch, and the three-way merge of ``kubectl apply``."""
