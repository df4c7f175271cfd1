"""Work that takes long or waits: functions in threads, queues of keys, and when the garbage collector runs."""
