"""The console: a read-only web page about a fleet."""
