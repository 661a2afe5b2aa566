"""A judge whose logits never leave the device: kernels adjust, filter, draw and decide; the host reads a few numbers.

Shapes: R windows, N rows of logits of all of them, V vocabulary, C chunks of a row.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from engine.fetch import Fetch, fetcher
from engine.kernels import check
from engine.kernels.sampling import adjust
from engine.kernels.windows import decide
from engine.philox import Role
from engine.sampling_triton import CHUNK, STEP, finished, summarised
from engine.upload import upload
from verifier import packing
from verifier.acceptance import RULES, make, rates
from verifier.config import VerifierConfig
from verifier.judge_torch import TorchJudge, adjustments, bans, changes
from verifier.packing import Asked
from verifier.pending import Known, Pending, Then, Wake
from verifier.rules.decisions import conditional
from verifier.step import Verdict, Work
from verifier.unpacking import Coming, verdicts

EDITED: Final = 256
TESTED: Final[Mapping[str, int]] = {"ratio": 0, "block": 1, "threshold": 2, "synthetic": 3}
"""Rules that test guesses by numbers, as `engine.kernels.windows` counts them; others draw the target's own tokens."""
REGISTERS: Final = 168
"""Of a thread that decides: left to itself the compiler takes fewer, and spills (`docs/gpu.md`)."""


class TritonJudge:
    """See `verifier.judges.Judge`. `elsewhere` counts windows that were judged on the CPU.

    The vocabulary is taken `chunk` tokens at a time, by searches `step` of them.
    """

    def __init__(
        self,
        config: VerifierConfig,
        *,
        chunk: int = CHUNK,
        step: int = STEP,
        fetch: Fetch | None = None,
    ) -> None:
        check(config.device)
        self._fetch = fetch or fetcher(config.device)
        self._chunk, self._step = chunk, step
        self.elsewhere = 0
        self._config = config
        self._rule = RULES[config.rule]
        self._number = TESTED.get(config.rule)
        self._device = config.device
        self._curve = conditional(rates(config)) if config.rule == "synthetic" else []
        self._other = TorchJudge(make(config))

    def __call__(self, windows: Sequence[Work], logits_NV: Tensor) -> list[Verdict]:
        """The verdicts, waited for."""
        return self.begin(windows, logits_NV, lambda: None).take()

    def begin(self, windows: Sequence[Work], logits_NV: Tensor, wake: Wake) -> Pending:
        if not windows:
            return Coming(self._fetch(logits_NV.new_zeros(1), wake), lambda _: [])
        asked = [Asked(work, adjustments(work.sampling), bans(work)) for work in windows]
        # `block` looks at rows behind a dead end, for which only the CPU's way of drawing there is defined.
        far = [self._config.rule == "block" and each.bans for each in asked]
        if not any(far):
            return self._begin(asked, logits_NV, wake)
        self.elsewhere += sum(far)
        parts = list(torch.split(logits_NV, [work.draws for work in windows]))
        here = [place for place, each in enumerate(far) if each]
        there = [place for place, each in enumerate(far) if not each]
        pending: Pending = Known(())
        if there:
            near = torch.cat([parts[place] for place in there])
            pending = self._begin([asked[place] for place in there], near, wake)
        apart = torch.cat([parts[place] for place in here])
        judged = self._other([windows[place] for place in here], apart)

        def together(others: list[Verdict]) -> list[Verdict]:
            made = dict(zip(here, judged, strict=True)) | dict(zip(there, others, strict=True))
            return [made[place] for place in range(len(windows))]

        return Then(pending, together)

    def _begin(self, asked: Sequence[Asked], logits_NV: Tensor, wake: Wake) -> Pending:
        """Launch everything, and the copy of what comes of it."""
        logits_NV = logits_NV.contiguous()
        N, V = logits_NV.shape
        masks = [
            None if each.work.matcher is None else each.work.matcher.masks(each.work.guesses)
            for each in asked
        ]
        arrays = packing.rows(asked)
        arrays |= packing.places(asked, laws=self._rule.laws, fresh=self._rule.fresh)
        edits = packing.edits(asked) if any(changes(each.work) for each in asked) else None
        arrays |= edits or {}
        allowed = packing.masks(asked, masks, V)
        if allowed is not None:
            arrays["masks"], arrays["mask_row"] = allowed
        arrays["bans"] = packing.bans(asked, V)
        hot = self._hot(asked)
        arrays["windows"] = np.array(hot, np.int32)
        if self._curve:
            longest = max(1, *(len(each.work.tested) for each in asked))
            curve = [*self._curve, *[0.0] * longest][:longest]
            arrays["curve"] = np.array(curve)
            # What lies beyond the curve and is no draft was never guessed: the target's own token stands there.
            most = [max(each.work.drafts, len(self._curve)) for each in asked]
            arrays["window_tested"] = np.minimum(arrays["window_tested"], most).astype(np.int32)
        on = upload(arrays, self._device)
        _adjust(logits_NV, on, arrays)
        out = torch.full((2 * N + 3 * len(asked),), -1, dtype=torch.int32, device=self._device)
        token_N, state_N, *ends = torch.split(out, [N, N, *[len(asked)] * 3])
        self._draw(
            logits_NV,
            on,
            rows=(token_N, state_N),
            ends=ends,
            hot=len(hot),
        )
        return Coming(self._fetch(out, wake), partial(verdicts, asked, masks, hot))

    def _hot(self, asked: Sequence[Asked]) -> list[int]:
        """Windows whose guesses are tested by numbers: at temperature 0 all rules but a curve compare tokens."""
        if self._number is None:
            return []
        return [
            place
            for place, each in enumerate(asked)
            if self._curve or each.work.sampling.temperature > 0
        ]

    def _draw(
        self,
        logits_NV: Tensor,
        on: Mapping[str, Tensor],
        *,
        rows: tuple[Tensor, Tensor],
        ends: Sequence[Tensor],
        hot: int,
    ) -> None:
        """Launch what fills `rows` and `ends`."""
        made = summarised(logits_NV, on, self._chunk)
        top_N, depth_N, total_N = finished(
            logits_NV, on, made, rows, draw=self._number is None, step=self._step
        )
        if hot:
            bars = self._config.threshold
            decide[(hot,)](
                logits_NV, made.top_NC, made.best_NC, made.sum_NC, top_N, depth_N, total_N, rows[1],
                on["heat"], on["seeds"], on["choices"], on["positions"],
                on["windows"], on["window_row"], on["window_draws"], on["window_tested"],
                on["window_guess"], on["window_base"],
                on["guess_token"], on["guess_share"], on["law_id"], on["law_share"],
                on.get("curve", on["guess_share"]), *ends,
                bars.single, bars.accumulated, made.chunks, logits_NV.shape[1],
                RULE=self._number, BLOCK=made.chunk, CHUNKS=made.held, LAW=on["law_id"].shape[1],
                ACCEPT=int(Role.ACCEPT), FINAL=int(Role.FINAL),
                num_warps=8, maxnreg=REGISTERS,
            )  # fmt: skip


def _adjust(logits_NV: Tensor, on: Mapping[str, Tensor], arrays: Mapping[str, Any]) -> None:
    """Biases and penalties, then what cannot come."""
    if "edit_row" in on:
        longest = int((arrays["list_end"] - arrays["list_begin"]).max())
        adjust[(len(arrays["edit_row"]), -(-longest // EDITED))](
            logits_NV, on["edit_row"], on["edit_window"], on["edit_place"],
            on["list_begin"], on["list_end"], on["list_id"], on["list_count"], on["list_seen"],
            on["list_bias"], on["window_guess"], on["guess_token"],
            on["repetition"], on["presence"], on["frequency"], logits_NV.shape[1],
            BLOCK=EDITED, num_warps=4,
        )  # fmt: skip
    if len(arrays["bans"]):
        logits_NV.view(-1).index_fill_(0, on["bans"], float("-inf"))
