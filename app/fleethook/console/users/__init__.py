"""The users of the console: sessions, certificates and rights."""
