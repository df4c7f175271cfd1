"""Tests of the name of a cache entry."""

import hashlib

from fleethook.engines.crds.source import Source


def test_the_key_is_the_digest_of_the_url_alone() -> None:
    key = Source("https://h/crds.tar.gz").key
    assert key == hashlib.sha256(b"https://h/crds.tar.gz").hexdigest()
    assert Source(" https://h/crds.tar.gz\n", sha256="a" * 64, mirrors=("https://m/",)).key == key
    assert Source("https://h/crds.tar.gz?x").key != key
