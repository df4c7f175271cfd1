"""The example hooks of Karmada's proposal, written as Python interpreters."""
