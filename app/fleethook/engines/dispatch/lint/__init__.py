"""Lints the webhook configurations of a store, beyond the validation of an apiserver."""
