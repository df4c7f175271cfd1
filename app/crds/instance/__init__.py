"""What an instance of Karmada says about where its CRDs come from (research 1 and 6.1)."""
