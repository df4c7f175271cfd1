"""``fleethook doctor``."""
