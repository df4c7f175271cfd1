"""The fixtures of all tests of commands."""

from tests.cli.conftest import _no_kubeconfig, cluster, origin, run, write_yaml

__all__ = ["_no_kubeconfig", "cluster", "origin", "run", "write_yaml"]
