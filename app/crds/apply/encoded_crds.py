"""The CRDs of a release as JSON, which takes a twentieth of the memory of the objects."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from app.model.json import JSONObject


class EncodedCRDs(Mapping[str, JSONObject]):
    """CRDs by name, in order. Each access decodes the CRD again."""

    def __init__(self, texts: Mapping[str, bytes]) -> None:
        """Hold ``texts``, the JSON of each CRD by its name."""
        self._texts: Final = texts

    def __getitem__(self, name: str) -> JSONObject:
        """Return a CRD; raises KeyError if there is none of that name."""
        # msgspec does not decode integers of more than 64 bits, which a schema may have.
        decoded: JSONObject = json.loads(self._texts[name])
        return decoded

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._texts)

    def __len__(self) -> int:
        """Return how many CRDs there are."""
        return len(self._texts)
