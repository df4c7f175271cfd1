"""CI runs few benchmarks, so this test finds modules that a change of the product has broken."""

import importlib
import pkgutil

import benchmarks


def test_each_module_of_the_benchmarks_can_be_imported() -> None:
    names = [one.name for one in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
    assert len(names) > 40
    for name in names:
        importlib.import_module(name)
