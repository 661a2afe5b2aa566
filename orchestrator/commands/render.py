"""`orchestrator render`: the same service for those who run it elsewhere."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from orchestrator.commands.output import FAILED, complain, say
from orchestrator.commands.service import reachable
from orchestrator.front.config import KEY_VARIABLE
from orchestrator.kubernetes.values import values_of
from orchestrator.models import MODELS
from orchestrator.settings import load
from protocol.rundir import running

SECONDS = 10.0


def k8s(url: str | None, api_key: str | None, file: Path | None) -> int:
    """Write values of the service at `url`, else of `file`, else of one that runs here, else of the defaults."""
    place = url or ("" if file else next((each.url for each in running() if each.url), ""))
    if place:
        try:
            shown = _asked(reachable(place).rstrip("/").removesuffix("/v1"), api_key)
        except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError) as error:
            complain(f"{place} does not say how it is configured: {error}")
            return FAILED
    else:
        shown = load({}, file).shown()
    for key in ("target", "draft"):
        name = str(shown.get(key, ""))
        if name and name not in MODELS and Path(name).expanduser().exists():
            say(f"{key} {name} is a folder here: mount it in the pods, see docs/kubernetes.md")
    sys.stdout.write(yaml.safe_dump(values_of(shown), sort_keys=False))
    return 0


def _asked(url: str, api_key: str | None) -> Mapping[str, Any]:
    key = api_key or os.environ.get(KEY_VARIABLE)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.get(f"{url}/server_info", headers=headers, timeout=SECONDS)
    answer.raise_for_status()
    config = answer.json()["config"]
    if not isinstance(config, dict):
        raise ValueError("its answer holds no configuration")
    return config
