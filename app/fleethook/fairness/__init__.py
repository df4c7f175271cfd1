"""Queues, slots and caches that consumers share fairly: many requests of one consumer do not delay the others."""
