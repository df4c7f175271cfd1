"""Recordings of a server for the pages about reviews."""

from pathlib import Path
from typing import Any

from tests.builders import entry, image, overrider, workload, yurt_app_set
from tests.recordings.recordings import MUTATE
from tests.recordings.replaying import recording


def objects(tag: str = "2.0") -> list[dict[str, Any]]:
    """Return a subject and the overrider that sets an image in all its pools."""
    return [yurt_app_set(), overrider(entry("*", items=[image("nginx", f"nginx:{tag}")]))]


def review(document: dict[str, Any], uid: str, **request: Any) -> dict[str, Any]:
    kind = {"group": "apps", "version": "v1", "kind": document["kind"]}
    asked = {"uid": uid, "operation": "CREATE", "namespace": "default", "kind": kind, "object": document, **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


async def record_workloads(directory: Path, *documents: dict[str, Any], tag: str = "2.0") -> Path:
    """Record the reviews of workloads, one of the subject and then the given ones; return the file."""
    async with recording(*objects(tag)) as made:
        for number, document in enumerate((workload(), *documents)):
            await made.ask(MUTATE, review(document, f"u-{number}"))
        text = made.text()
    return _write(directory, text)


def _write(directory: Path, text: bytes) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "reviews.jsonl"
    path.write_bytes(text)
    return path
