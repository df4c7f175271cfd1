"""Applies the policies of overriders to a cluster, follows and removes them."""
