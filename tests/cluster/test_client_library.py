"""The client library is loaded without its models; code that needs them still gets all of it."""

import subprocess
import sys

LOADED = "[name for name in sys.modules if name.startswith('kubernetes_asyncio')]"


def run(code: str) -> str:
    made = subprocess.run([sys.executable, "-c", f"import sys\n{code}"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


def test_a_connection_loads_neither_models_nor_api_methods() -> None:
    loaded = run(f"import fleethook.cluster.apiserver_connection\nprint(*{LOADED}, sep='\\n')").split()
    assert "kubernetes_asyncio.config.kube_config" in loaded
    assert [
        name
        for name in loaded
        if name.startswith(("kubernetes_asyncio.client.models.", "kubernetes_asyncio.client.api."))
    ] == []
    assert len(loaded) < 30


def test_other_code_gets_the_complete_library() -> None:
    code = """
import fleethook.cluster.apiserver_connection
import kubernetes_asyncio
from kubernetes_asyncio import client, watch
from kubernetes_asyncio.client import CoreV1Api, V1Pod
from kubernetes_asyncio.client import *
assert kubernetes_asyncio.__version__ and watch.Watch and kubernetes_asyncio.dynamic.DynamicClient
assert client.Configuration is fleethook.cluster.apiserver_connection.Configuration
assert client.models.V1Pod is V1Pod is globals()["V1Pod"]
assert client.ApiClient.deserialize and client.CoreV1Api is CoreV1Api
try:
    client.NoSuchName
except AttributeError as error:
    print(error)
"""
    assert "has no attribute 'NoSuchName'" in run(code)


def test_a_library_that_is_loaded_already_stays() -> None:
    code = "import kubernetes_asyncio as before\nimport fleethook.cluster.apiserver_connection\nassert sys.modules['kubernetes_asyncio'] is before"
    run(f"{code}\nassert type(before) is type(sys)")
