"""The objects the engines read: one indexed, cluster-keyed, in-memory store, fed by sources."""

from app.store.store import Index, ObjectKey, Store, Stored, StoreView, key_of

__all__ = ["Index", "ObjectKey", "Store", "StoreView", "Stored", "key_of"]
