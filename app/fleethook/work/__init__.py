"""Work that takes long or waits: its protocol, turns on the event loop, threads, and queues of keys."""
