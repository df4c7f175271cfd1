"""Sharing between consumers: queues, slots and caches in which a crowd of one consumer costs the others nothing."""
