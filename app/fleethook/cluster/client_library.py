"""The parts of kubernetes-asyncio that this package uses, loaded without the others.

Its packages import the models and the API methods of all kinds: 830 modules, which take 0.9 s of CPU and 63 MB. Its
authentication and transport use none of them. So the ``__init__`` of these packages runs only if code asks for a name
that it defines, for example an interpreter in Python of a user.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import RLock
from types import ModuleType
from typing import Any, Final

_ROOT: Final = "kubernetes_asyncio"
_PACKAGES: Final = (_ROOT, f"{_ROOT}.client", f"{_ROOT}.client.models")
_CLASSES: Final = {"ApiClient": f"{_ROOT}.client.api_client", "Configuration": f"{_ROOT}.client.configuration"}
"""The classes that the modules of authentication import from ``kubernetes_asyncio.client``."""
_ASKED_FOR: Final = frozenset({"__all__", "__version__"})
_loading: Final = RLock()


class _DeferredPackage(ModuleType):
    """A package whose ``__init__`` runs when a name is neither a module of it nor one of `_CLASSES`."""

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED_FOR:
            return self._load(name)
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _CLASSES:
            return getattr(import_module(_CLASSES[name]), name)
        module = f"{self.__name__}.{name}"
        return self._load(name) if find_spec(module) is None else import_module(module)

    def _load(self, name: str) -> Any:
        with _loading:
            if type(self) is _DeferredPackage:
                self.__class__ = ModuleType  # type: ignore[assignment]  # as importlib.util.LazyLoader does
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _defer_packages() -> None:
    for name in _PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        package = module_from_spec(spec)
        package.__class__ = _DeferredPackage
        sys.modules[name] = package
        parent, _, member = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], member, package)


if _ROOT not in sys.modules:
    _defer_packages()

from kubernetes_asyncio import config as kube_config  # noqa: E402 - after the packages are deferred
from kubernetes_asyncio.client import Configuration  # noqa: E402 - as above
from kubernetes_asyncio.client.rest import RESTClientObject  # noqa: E402 - as above

__all__ = ["Configuration", "RESTClientObject", "kube_config"]
