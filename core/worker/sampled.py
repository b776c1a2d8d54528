"""A sampled answer read by both models: what the target drew from (p) beside what the draft would draw from (q).

Under speculative sampling a token y, once written, came from the draft with probability min(1, q(y) / p(y)), and
whatever the draft proposes is accepted with probability sum min(p, q); a rejected one is distributed as
(q - p)+ / sum (q - p)+. Source: Leviathan et al. 2022, Algorithm 1. Reduced part by part on the device; no row of the
vocabulary is kept. Probabilities in fp32. A pass over the whole text may round a token out of the nucleus from which it
was drawn: p is then taken to be the least in the nucleus, and counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from core.predict import THRESHOLDS
from core.trace import Sampled
from core.worker.models import Pair
from core.worker.processors import Lists, check_numbers
from core.worker.reading import Texts, scores_of


@dataclass(frozen=True)
class Compared:
    """(N,) each: chance of acceptance, q of the answer's token, the draft's first choice; and what else sampling needs."""

    accept: NDArray[np.float32]
    confidence: NDArray[np.float32]
    choice: NDArray[np.int32]
    sampled: Sampled


@dataclass(frozen=True)
class _Part:
    """The same of some rows, on the device; `stop`: (rows, thresholds). p_again: p as computed here."""

    p_again: torch.Tensor
    p: torch.Tensor
    q: torch.Tensor
    overlap: torch.Tensor
    choice: torch.Tensor
    stop: torch.Tensor


def compare(pair: Pair, lists: Lists, texts: Texts, kept: Sequence[NDArray[np.float32] | None]) -> list[Compared]:
    """Both models over the answers of `texts`. kept: (N,) p of each as it was while writing, or None to compute it again.

    Raises ModelError when a model's scores are not numbers.
    """
    device = texts.ids.device
    written = [None if p is None else torch.from_numpy(p).to(device) for p in kept]
    eos = torch.tensor(pair.eos_ids, dtype=torch.long, device=device)
    parts: list[list[_Part]] = [[] for _ in kept]
    done = [0] * len(kept)
    models = ((pair.target, lists.target), (pair.draft, lists.draft))
    both = (scores_of(texts.begin(model), processors, texts.on(model.device)) for model, processors in models)
    for (at, p_scores), (_, q_scores) in zip(*both, strict=True):
        rows, p = slice(done[at], done[at] + len(p_scores)), written[at]
        done[at] = rows.stop
        found = _part(p_scores.softmax(-1), q_scores.softmax(-1).to(device), texts.answer(at)[rows], None if p is None else p[rows], eos)
        check_numbers(found.p_again, pair.target, "target")
        check_numbers(found.q, pair.draft, "draft")
        parts[at].append(found)
    return [_joined(own, texts.answer(at)) for at, own in enumerate(parts)]


def _part(p: torch.Tensor, q: torch.Tensor, token: torch.Tensor, kept: torch.Tensor | None, eos: torch.Tensor) -> _Part:
    """p, q: (rows, V), the answer's tokens (rows,) and their p as kept (rows,)."""
    at = token[:, None]
    again = p.gather(1, at)[:, 0]
    known = again if kept is None else kept
    least = torch.where(p > 0, p, torch.inf).amin(1)
    return _Part(
        p_again=again,
        p=torch.where(known > 0, known, least),
        q=q.gather(1, at)[:, 0],
        overlap=torch.minimum(p, q).sum(1).clamp(max=1),
        choice=q.argmax(1),
        stop=_stop_rejected(p, q, eos),
    )


def _stop_rejected(p: torch.Tensor, q: torch.Tensor, eos: torch.Tensor) -> torch.Tensor:
    """(rows, thresholds): the chance that a token which is going to be rejected has a q below the threshold, or is an end of text.

    The tokens' excess of q over p is added up between neighbouring thresholds, all of them in one pass.
    """
    edges = torch.tensor(THRESHOLDS, dtype=q.dtype, device=q.device)
    between = torch.bucketize(q, edges, right=True)  # (rows, V): edges[between - 1] <= q < edges[between]
    between[:, eos] = 0
    excess = (q - p).clamp(min=0)
    sums = torch.zeros((len(q), len(edges) + 1), dtype=q.dtype, device=q.device).scatter_add_(1, between, excess)
    below = sums.cumsum(1)
    return below[:, :-1] / below[:, -1:].clamp(min=torch.finfo(q.dtype).tiny)


def _joined(parts: list[_Part], answer: torch.Tensor) -> Compared:
    def column(name: str) -> torch.Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    p, q, choice, stop = column("p"), column("q"), column("choice"), column("stop").cpu().numpy()
    return Compared(
        accept=(q / p).clamp(max=1).cpu().numpy(),
        confidence=q.cpu().numpy(),
        choice=choice.cpu().numpy().astype(np.int32),
        sampled=Sampled(
            p=p.cpu().numpy(),
            overlap=column("overlap").cpu().numpy(),
            stop_rejected={threshold: np.minimum(stop[:, index], 1) for index, threshold in enumerate(THRESHOLDS)},
            greedy_hit=(choice == answer).cpu().numpy(),
            clamped=int((column("p_again") == 0).sum()),
        ),
    )
