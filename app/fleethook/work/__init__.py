"""Work that takes long or waits: its protocol, turns, threads, child processes, and queues of keys."""
