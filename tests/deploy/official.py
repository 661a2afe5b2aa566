"""Judge custom resources by the definitions of those who own them: `python -m tests.deploy.official FOLDER`.

The folder holds CustomResourceDefinitions as their projects publish them, which are theirs and not kept here. Every
custom resource of every file of values must have one that takes it, without a field that it does not know.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from tests.deploy.chart import FILES, of_kind, rendered
from tests.deploy.test_judges import CUSTOM

Schema = dict[str, Any]


def definitions(folder: Path) -> dict[tuple[str, str], Schema]:
    """Strict schemas by API version and kind."""
    found = {}
    for path in sorted(folder.rglob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            if each and each["kind"] == "CustomResourceDefinition":
                spec = each["spec"]
                for version in spec["versions"]:
                    names = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
                    found[names] = closed(version["schema"]["openAPIV3Schema"])
    return found


def closed(part: Any) -> Any:  # noqa: ANN401
    """The same schema, where objects have no other fields than those that are listed, as an API server prunes them."""
    if isinstance(part, list):
        return [closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {key: closed(value) for key, value in part.items()}
    free = part.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in part
    if isinstance(part.get("properties"), dict) and part.get("type") == "object" and not free:
        made["additionalProperties"] = False
    if part.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    return made


def refusals(known: dict[tuple[str, str], Schema]) -> Iterator[str]:
    """One line for everything that is wrong."""
    for path in FILES:
        for each in of_kind(rendered(path), *CUSTOM):
            names = (each["apiVersion"], each["kind"])
            if names not in known:
                yield f"{path.stem}: nobody defines {names[1]} of {names[0]}"
                continue
            for error in jsonschema.Draft202012Validator(known[names]).iter_errors(each):
                yield f"{path.stem}: {names[1]} at {error.json_path}: {error.message}"


def main() -> None:
    known = definitions(Path(sys.argv[1]))
    wrong = sorted(set(refusals(known)))
    print("\n".join(wrong) or f"all are taken by {len(known)} definitions")  # noqa: T201
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
