"""The channels that there are here, as cases of tests; that of an extra belongs to the full suite."""

from typing import Final

import pytest

from kvtransfer.channels import CHANNELS

CASES: Final = [
    pytest.param(name, marks=[pytest.mark.full] if name == "nixl" else [])
    for name in sorted(CHANNELS)
]
