"""The objects that engines read: one indexed in-memory store with the cluster in each key, fed by sources."""

from fleethook.cluster.store.store import Index, ObjectKey, Store, Stored, StoreView, key_of

__all__ = ["Index", "ObjectKey", "Store", "StoreView", "Stored", "key_of"]
