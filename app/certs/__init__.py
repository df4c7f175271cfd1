"""Certificates: an authority of our own, serving certificates, and the files they live in."""
