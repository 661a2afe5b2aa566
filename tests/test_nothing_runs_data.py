"""Nothing that comes over a socket, or lies in a model folder, is ever run: what could do that is not in the code."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("protocol", "engine", "kvtransfer", "verifier", "drafter", "orchestrator")
MODULES: Final = frozenset(
    {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "code"}
)
CALLS: Final = frozenset(
    {
        "eval",
        "exec",
        "compile",
        "__import__",
        "torch.load",
        "torch.jit.load",
        "torch.hub.load",
        "yaml.load",
        "yaml.unsafe_load",
        "os.system",
        "os.popen",
        "numpy.load",
        "np.load",
    }
)


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def dangers(tree: ast.AST) -> Iterator[str]:
    """What in a module could run data."""
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (each.name for each in node.names if each.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield module
            case ast.Call() if (called := ast.unparse(node.func)) in CALLS:
                yield f"{called}()"
            case ast.Attribute() if node.attr in {"send_pyobj", "recv_pyobj"}:
                yield node.attr
            case ast.keyword(arg="shell" | "allow_pickle", value=ast.Constant(value=True)):
                yield f"{node.arg}=True"
            case ast.keyword(arg="weights_only", value=ast.Constant(value=False)):
                yield "weights_only=False"
            case ast.keyword(arg="trust_remote_code", value=ast.Constant(value=True)):
                yield "trust_remote_code=True"


def test_no_module_of_ours_can_run_data() -> None:
    files = sources()
    assert len(files) > 100
    found = {
        str(path.relative_to(ROOT)): dangerous
        for path in files
        if (dangerous := list(dangers(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from dill import loads",
        "def f(x):\n    return eval(x)",
        "torch.load(path)",
        "socket.recv_pyobj()",
        "subprocess.run(line, shell=True)",
        "np.load(path, allow_pickle=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
    ],
)
def test_it_would_be_noticed(text: str) -> None:
    assert list(dangers(ast.parse(text)))
