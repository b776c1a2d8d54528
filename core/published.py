"""What papers report of pairs that were not measured here: shown as hollow squares and as rows that say "published".

One source of these numbers for every chart and table. Speedups are the papers' own measurements, ratios to plain decoding; alpha and c
as the paper defines them, None where it does not give them. The numbers lie in `published.csv`, read from
Leviathan, Kalman and Matias 2022 (arXiv:2211.17192v2), Tables 2 and 4, and from the table of the Hugging Face article on dynamic
speculation. Not covered: the spread of these figures, which neither source gives.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core import theory

FILE = Path(__file__).with_name("published.csv")


@dataclass(frozen=True)
class Paper:
    """A source: who and what, where it can be read, when it appeared, and on what it was measured."""

    title: str
    address: str
    date: str
    hardware: str


PAPERS = {
    "leviathan2022": Paper(
        "Leviathan et al. 2022, arXiv:2211.17192v2, Tables 2 and 4",
        "https://arxiv.org/abs/2211.17192v2",
        "November 2022, version 2 of 2023",
        "one TPU-v4, batch 1",
    ),
    "hf2024": Paper(
        "Hugging Face and Intel, Faster Assisted Generation with Dynamic Speculation",
        "https://huggingface.co/blog/dynamic_speculation_lookahead",
        "8 October 2024",
        "one RTX 4090, batch 1",
    ),
}


@dataclass(frozen=True)
class Published:
    """One measured pair of a paper. gamma, alpha and c are None where the paper has none: a draft length that moves has no single gamma."""

    paper: Paper
    task: str
    target: str
    draft: str
    temperature: float
    setting: str
    gamma: int | None
    alpha: float | None
    c: float | None
    speedup: float

    @property
    def formula(self) -> float | None:
        """What Theorem 3.8 says for its alpha, gamma and c; None where one of them is missing."""
        if self.alpha is None or self.c is None or self.gamma is None:
            return None
        return float(theory.speedup(self.alpha, self.gamma, self.c))

    @property
    def gap(self) -> float | None:
        """Formula / published - 1; above 0 where the formula promises too much."""
        return None if self.formula is None else self.formula / self.speedup - 1


@cache
def published() -> tuple[Published, ...]:
    """Every published pair, paper by paper in the order of its tables."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_pair(row) for row in csv.DictReader(file))


def t5_pairs() -> tuple[Published, ...]:
    """Those with alpha and c, which have a place on the map: the T5 pairs."""
    return tuple(pair for pair in published() if pair.alpha is not None and pair.c is not None)


def _pair(row: dict[str, str]) -> Published:
    return Published(
        paper=PAPERS[row["paper"]],
        task=row["task"],
        target=row["target"],
        draft=row["draft"],
        temperature=float(row["temperature"]),
        setting=row["setting"],
        gamma=int(row["gamma"]) if row["gamma"] else None,
        alpha=float(row["alpha"]) if row["alpha"] else None,
        c=float(row["c"]) if row["c"] else None,
        speedup=float(row["speedup"]),
    )
