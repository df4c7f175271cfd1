"""``fleethook uninstall``."""
