"""The effect of overriders before they are applied, and the findings about manifests."""
