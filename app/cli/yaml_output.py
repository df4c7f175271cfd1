"""Objects as YAML for people."""

import yaml

from app.model.json import JSON
from app.model.text import is_inert


class NoAliasDumper(yaml.SafeDumper):
    """YAML without anchors: people edit the output."""

    def ignore_aliases(self, data: object) -> bool:
        """Return that a value is written out wherever it is used."""
        del data
        return True


def yaml_text(value: JSON, *, dumper: type[yaml.SafeDumper] = yaml.SafeDumper) -> str:
    """Return a value as YAML; if it has characters that act on a terminal, all beyond ASCII are YAML escapes."""
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True)
    if not is_inert(text.replace("\n", "")):
        text = yaml.dump(value, Dumper=dumper, sort_keys=False)
    return text
