"""Objects as YAML text."""

import yaml

from fleethook.cluster.manifests.kubectl_values import quote_texts
from fleethook.model.formats.text import is_inert
from fleethook.model.json import JSON


@quote_texts
class _Dumper(yaml.CSafeDumper):
    """Writes YAML that kubectl reads as the same values."""


class NoAliasDumper(_Dumper):
    """Writes YAML without anchors, because users edit the output."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that a shared value is written at each place."""
        del data
        return True


def yaml_text(value: JSON, *, dumper: type[yaml.CSafeDumper] = _Dumper) -> str:
    """Return a value as YAML. If it has terminal control characters, all characters beyond ASCII are escaped."""
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True)
    if not is_inert(text.replace("\n", "")):
        text = yaml.dump(value, Dumper=dumper, sort_keys=False)
    return text
