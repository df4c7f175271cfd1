"""Issues, stores, rotates and reloads the serving certificate and its certificate authority (CA)."""
