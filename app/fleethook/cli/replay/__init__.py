"""``fleethook replay``."""
