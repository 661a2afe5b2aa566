"""Makes the stubs of `orchestrator/rpc/draftmesh.proto`: `python -m tests.orchestrator.rpc_code`."""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from grpc_tools import protoc

ROOT: Final = Path(__file__).parents[2]
PLACE: Final = Path("orchestrator/rpc")


def made(into: Path) -> list[Path]:
    """What the tools make of it, below `into`."""
    code = protoc.main(
        [
            "protoc",
            f"-I{ROOT}",
            *(f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")),
            str(ROOT / PLACE / "draftmesh.proto"),
        ]
    )
    assert code == 0
    return sorted((into / PLACE).iterdir())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for path in made(Path(folder)):
            shutil.copy(path, ROOT / PLACE / path.name)
            sys.stdout.write(f"{PLACE / path.name}\n")


if __name__ == "__main__":
    main()
