"""Work that takes long or waits: in steps, in slices, in threads, in turns, and queues of keys."""
