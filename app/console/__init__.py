"""The console: a read-only web page about a fleet, for people who prefer looking to reading."""
