"""`make gpu`: everything that only a GPU can tell, in under eight minutes, a short table last.

`--rehearse` runs the same code on a CPU, interpreted and small: its figures mean nothing. What needs a service of
several processes is in `tests/gpu/service.py`, and runs where all packages of the project are installed.
"""

import argparse
import sys

import torch
import triton

from tests.gpu.clock import Table
from tests.gpu.forwards import steps
from tests.gpu.heads import FULL, SMALL, compare_heads
from tests.gpu.kernels import REHEARSAL, Scale, fast, right


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.gpu")
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--without-service", action="store_true")
    given = parser.parse_args()
    if not given.rehearse and not torch.cuda.is_available():
        print("there is no GPU here; --rehearse runs the same code without one")
        return 1
    scale = REHEARSAL if given.rehearse else Scale(device="cuda")
    table = Table()
    name = "a rehearsal" if given.rehearse else torch.cuda.get_device_name()
    table.add("device", name, f"torch {torch.__version__}, triton {triton.__version__}")
    right(scale, table)
    fast(scale, table)
    if given.rehearse:
        from tests.kernels.case_graphs import Repeats  # noqa: PLC0415

        steps("tiny", "cpu", table, recorder=Repeats())
        compare_heads(table, SMALL)
    else:
        steps("1B", "cuda", table)
        steps("8B", "cuda", table)
        torch.cuda.empty_cache()
        compare_heads(table, FULL)
    if not given.without_service:
        from tests.gpu.service import compare  # noqa: PLC0415  # packages that the rest does without

        compare(table, rehearse=given.rehearse)
    table.add("two GPUs", "not measured", "1.27x colocated, 1.76x plain at 32")
    print()
    print(table.text())
    print("WRONG: " + ", ".join(table.failed) if table.failed else "everything is right")
    return bool(table.failed)


if __name__ == "__main__":
    sys.exit(main())
