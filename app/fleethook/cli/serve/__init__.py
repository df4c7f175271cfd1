"""``fleethook serve``: processes, listening, and the tasks of the leader."""
