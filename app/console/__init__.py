"""The console: a read-only web page."""
