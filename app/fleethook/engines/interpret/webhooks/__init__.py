"""Hook configurations: the chain calls the hooks of other configurations, and the leader registers this server's."""
