"""The same rounds in the words of other tools, and alpha from what those tools print.

"Acceptance rate" means at least five different things. Each entry states the tool's own definition
and where it is written down. Back to alpha: exactly from per-position counts when every round drafts
gamma tokens, which only the user can know; else under the assumption that every token has the same
chance. Not covered: trees of drafts (several candidates per position).
"""

import re
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from core import theory
from core.errors import InvalidInput
from core.imports_counts import NUMBER, bounded_lines
from core.rounds import Floats, Rounds

# A person's text is read with these in the web process: no choice of where a run of characters goes, so that none of them is slow.
_BY_POSITION = re.compile(rf"Per-position acceptance rate:\s*(?:\[\s*)?({NUMBER}(?:\s*,\s*{NUMBER})*)")
_COUNTER = re.compile(rf"vllm:spec_decode_num_(drafts|accepted_tokens_per_pos)(?:_total)?(?:\{{(.*)\}})?\s+({NUMBER})\s*")
_POSITION = re.compile(r'position="([0-9]{1,4})"')
_ACCEPTED = re.compile(r"\(\s*([0-9]{1,15})\s*accepted\s*/\s*([0-9]{1,15})\s*generated\s*\)")


@dataclass(frozen=True)
class Word:
    """One number under another tool's name. value has one entry, or one per draft position; percent: it is out of 100."""

    tool: str
    name: str
    definition: str
    value: tuple[float, ...]
    source: str
    percent: bool = False


@dataclass(frozen=True)
class Reading:
    """Alpha as another tool's output implies it; `exact` when no equal chance per token had to be assumed."""

    alpha: float
    exact: bool
    how: str


def in_other_words(rounds: Rounds, alpha: float) -> tuple[Word, ...]:
    """Rounds of one policy in other tools' definitions; alpha is the mean over all positions.

    Raises InvalidInput when nothing was drafted, because then none of these numbers exists.
    """
    if not rounds.drafted:
        raise InvalidInput("Nothing was drafted under this policy, so other tools would show no acceptance. Choose a way of drafting.")
    drafts = float(rounds.reached[0])
    ratio, length = rounds.accepted / rounds.drafted, rounds.tokens / rounds.rounds
    joint, conditional = rounds.passed / rounds.rounds, _conditional(rounds)
    repeated = (rounds.accepted + rounds.rounds) / (rounds.drafted + rounds.rounds)
    optimizer = "NVIDIA Model-Optimizer specdec_bench"
    return (
        Word("Leviathan 2022", "alpha", "mean chance that a draft token is accepted, over all positions", (alpha,), "arXiv:2211.17192 Cor. 3.6"),
        Word("vLLM", "draft acceptance rate", "accepted / drafted", (ratio,), "vllm/v1/spec_decode/metrics.py"),
        Word("vLLM", "mean acceptance length", "1 + accepted / drafts", (1 + rounds.accepted / drafts,), "vllm/v1/spec_decode/metrics.py"),
        Word(
            "vLLM",
            "per-position acceptance rate",
            "drafts that accepted at least k tokens / all drafts",
            _values(rounds.passed / drafts),
            "vllm/v1/spec_decode/metrics.py",
        ),
        Word("SGLang", "spec_accept_length", "completion tokens / verify passes", (length,), "sgl-project/sglang PR 33518"),
        Word("SGLang", "spec_accept_rate", "accepted / proposed", (ratio,), "sgl-project/sglang PR 33518"),
        Word(optimizer, "acceptance rate", "tokens per iteration: a length", (length,), "examples/specdec_bench/README.md"),
        Word(
            optimizer,
            "Conditional_Acceptance_Rate",
            "steps that reach k / steps that reached k-1",
            _values(conditional),
            "specdec_bench/metrics/acceptance_rate.py",
        ),
        Word(optimizer, "Joint_Acceptance_Rate", "product of the conditional rates", _values(joint), "specdec_bench/metrics/acceptance_rate.py"),
        Word("Spec-Bench", "#Mean Accepted Tokens", "tokens per verify pass, bonus included", (length,), "evaluation/speed.py"),
        Word("llama.cpp", "draft acceptance rate", "accepted / generated drafts", (ratio,), "docs/speculative.md"),
        Word(
            "LM Studio SDK",
            "accepted_draft_tokens_count / predicted_tokens_count",
            "share of the output that came from the draft",
            (rounds.accepted / rounds.tokens,),
            "lmstudio.ai/docs/python/llm-prediction/speculative-decoding",
        ),
        Word("AIPerf", "Draft Acceptance Rate", "accepted / drafted", (ratio,), "ai-dynamo/aiperf docs/tutorials/spec-decode-metrics.md"),
        Word(
            "AIPerf",
            "Accepted per Verified",
            "(accepted + 1) / (drafted + 1) per round",
            (repeated,),
            "ai-dynamo/aiperf docs/tutorials/spec-decode-metrics.md",
        ),
        Word("specspecs", "accept rate", "accepted / proposed, a repeated last token counted in both", (repeated,), "PyPI specspecs 0.1.0 serve.py"),
        Word("eagle-harness", "a_d", "rounds whose first d drafts were all accepted / rounds", _values(joint), "PyPI eagle-harness 0.1.3"),
        Word("OpenVINO llm_bench", "acceptance_rate", "accepted / generated x 100", (100 * ratio,), "openvino.genai PR 4248", percent=True),
    )


def _conditional(rounds: Rounds) -> Floats:
    """(K,) rounds that accepted at least k / rounds that accepted at least k-1; 0 where none did."""
    before = np.concatenate([[rounds.rounds], rounds.passed[:-1]])
    return np.divide(rounds.passed, before, out=np.zeros_like(before), where=before > 0)


def _values(array: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in array)


def alpha_from_positions(shares: tuple[float, ...], *, gamma: int | None = None) -> Reading:
    """From the share of rounds that accepted at least 1, 2, ... drafts: accepted / examined.

    gamma: the length that every round drafts. Without it rounds may be cut short (a confidence
    threshold, mixed lengths), each then counts as a rejection, and alpha is read too low.
    Raises InvalidInput for shares outside 0..1 or rising ones, and when there are not gamma of them.
    """
    if not shares or not all(0 <= share <= 1 for share in shares) or any(b > a for a, b in pairwise(shares)):
        raise InvalidInput(f"The shares {', '.join(map(str, shares))[:200]} cannot be acceptance by position: they must fall, from 1 to 0 at most.")
    if gamma is not None and gamma != len(shares):
        raise InvalidInput(f"There are {len(shares)} shares by position for a draft length of {gamma}. Give the length that the tool was set to.")
    alpha = float(theory.alpha_from_counts(sum(shares), 1 - shares[-1]))
    known = f"every round drafts {gamma}" if gamma else f"if every round drafts {len(shares)}; else it is at least that"
    return Reading(alpha, gamma is not None, f"accepted / examined drafts over {len(shares)} positions, {known}")


def alpha_from_utilisation(ratio: float, gamma: int) -> Reading:
    """From accepted / drafted at a fixed gamma, if every token has the same chance. Raises InvalidInput outside 0..1 or below gamma 1."""
    if not 0 <= ratio <= 1:
        raise InvalidInput(f"Accepted / drafted is {ratio}; it must be from 0 to 1.")
    if gamma < 1:
        raise InvalidInput(f"A draft length of {gamma} is not possible; give the tool's setting, 1 or more.")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (theory.tokens_per_round(middle, gamma) - 1) / gamma < ratio else (low, middle)
    return Reading((low + high) / 2, gamma == 1, f"accepted / drafted = {ratio:.3f} at gamma {gamma}, the same chance for every token assumed")


def alpha_from_vllm_log(line: str, *, gamma: int | None = None) -> Reading:
    """From vLLM's line "SpecDecoding metrics: ... Per-position acceptance rate: 0.8, 0.6, ..."; gamma as in `alpha_from_positions`.

    Raises InvalidInput without such a line.
    """
    found = _BY_POSITION.search(line)
    if found is None:
        raise InvalidInput(f"There is no per-position acceptance rate in '{line[:80]}'. Paste vLLM's line that begins with 'SpecDecoding metrics'.")
    return alpha_from_positions(tuple(float(value) for value in found[1].split(",")), gamma=gamma)


def alpha_from_vllm_counters(text: str, *, gamma: int | None = None) -> Reading:
    """From vLLM's Prometheus page: `vllm:spec_decode_num_drafts_total` and `..._num_accepted_tokens_per_pos_total`; engines are added up.

    gamma as in `alpha_from_positions`. Raises InvalidInput when one of them is missing or nothing was drafted yet.
    """
    drafts, positions = 0.0, dict[int, float]()
    for name, labels, value in (found.groups() for line in bounded_lines(text) if (found := _COUNTER.fullmatch(line))):
        place = _POSITION.search(labels or "")
        if name == "drafts":
            drafts += float(value)
        elif place is not None:
            positions[int(place[1])] = positions.get(int(place[1]), 0.0) + float(value)
    if not drafts or not positions:
        raise InvalidInput(
            "vLLM's counters of drafts and of accepted tokens per position are missing or 0. Paste its /metrics page after some traffic."
        )
    return alpha_from_positions(tuple(positions[position] / drafts for position in sorted(positions)), gamma=gamma)


def alpha_from_llama_cpp(line: str, gamma: int) -> Reading:
    """From llama.cpp's "draft acceptance rate = 0.57576 (  171 accepted /   297 generated)" at its --draft-max. Raises InvalidInput without one."""
    found = _ACCEPTED.search(line)
    if found is None or int(found[2]) == 0:
        raise InvalidInput(f"There is no count of accepted and generated drafts in '{line[:80]}'. Paste llama.cpp's 'draft acceptance rate' line.")
    return alpha_from_utilisation(int(found[1]) / int(found[2]), gamma)
