"""Drafts worth trying for a target: smaller models of the same family and tokenizer, ranked by estimated c; and pairs to begin with.

`core/families.csv` names the families; its sizes are those that Transformers 5.24 builds from public configurations (a source per
row), read on 2026-11-29. A group shares one tokenizer; embeddings padded to other sizes are told from `vocab_size`. Addresses are those of
`core.address`. Nothing here has looked at a repository: licence, access and file format may still stand in the way, and
only the comparison of vocabularies (`core.vocab`) is a verdict. Not covered: fine-tuned drafts, and families that are not in the table.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from core.advice_runs import TUNED
from core.devices import CPU, Device
from core.estimate import Estimate, Load, estimate

TABLE = Path(__file__).parent / "families.csv"
MOST = 6
CACHE_TOKENS = 1024


@dataclass(frozen=True)
class Known:
    """A row: one size of a family, as a base model and tuned for chat ("" where there is none). bytes_per_token: cache in bf16."""

    family: str
    group: str
    base_id: str
    tuned_id: str
    model_type: str
    vocab_size: int
    parameters: int
    active_parameters: int
    multiplied_parameters: int
    layers: int
    bytes_per_token: int
    source: str

    def load(self, bytes_per_parameter: float) -> Load:
        """What a step of it reads, with 1,024 tokens cached."""
        idle = self.parameters - self.active_parameters
        read = self.multiplied_parameters * bytes_per_parameter
        return Load(self.layers, read, read + idle * bytes_per_parameter, self.bytes_per_token * CACHE_TOKENS)

    def address(self, tuned: bool) -> str:
        """Its address, tuned or not as far as there is a choice."""
        return (self.tuned_id or self.base_id) if tuned else (self.base_id or self.tuned_id)


class Suggestion(NamedTuple):
    """A draft to try. same_size: both have as many embedding rows, so that Transformers takes the pair as it is."""

    address: str
    model: Known
    estimate: Estimate
    same_size: bool
    reason: str


class Start(NamedTuple):
    """A pair to begin with: its name, the target, its drafts, and what it shows."""

    name: str
    target: str
    drafts: tuple[str, ...]
    what: str


_SMOL, _TUNED = "HuggingFaceTB/SmolLM2", "Instruct"
STARTS = (
    Start("Demo pair", "demo:target", ("demo:draft",), "Bundled: runs on any CPU in two minutes, without a network."),
    Start(
        "SmolLM2 1.7B",
        f"{_SMOL}-1.7B-{_TUNED}",
        (f"{_SMOL}-135M-{_TUNED}", f"{_SMOL}-360M-{_TUNED}"),
        "Small and open; both drafts are deeper than their target.",
    ),
    Start("SmolLM2 360M", f"{_SMOL}-360M-{_TUNED}", (f"{_SMOL}-135M-{_TUNED}",), "Small enough for a laptop; nearly as many layers on both sides."),
    Start("Qwen3 8B", "Qwen/Qwen3-8B", ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B"), "Open; a thirteenth of the parameters, 28 layers to 36."),
    Start(
        "Llama 3.1 8B",
        f"meta-llama/Llama-3.1-8B-{_TUNED}",
        (f"meta-llama/Llama-3.2-1B-{_TUNED}",),
        "Access on request; a sixth of the parameters, half the layers.",
    ),
    Start("Gemma 3 1B", "google/gemma-3-1b-it", ("google/gemma-3-270m-it",), "Access on request; sliding windows on both sides."),
    Start(
        "Pythia 2.8B",
        "EleutherAI/pythia-2.8b",
        ("EleutherAI/pythia-70m", "EleutherAI/pythia-160m"),
        "Open base models; drafts of 6 and 12 layers to 32.",
    ),
    Start("OPT 6.7B", "facebook/opt-6.7b", ("facebook/opt-125m",), "The pair of the library's own figures: 1.6-2.7x on an RTX 4090."),
)


@cache
def known() -> tuple[Known, ...]:
    """Every model of the table, in its order."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(_known(row) for row in csv.DictReader(file))


def find(address: str) -> Known | None:
    """The row of an address, its revision left aside; None for a model that is not in the table."""
    name = address.partition("@")[0].casefold()
    return next((row for row in known() if name and name in (row.base_id.casefold(), row.tuned_id.casefold())), None)


def relatives(address: str, config: Mapping[str, Any] | None = None) -> list[Known]:
    """The rows of the target's family: by its address, else every family that its config's architecture and vocabulary size point to."""
    row = find(address)
    if row is not None:
        groups = {row.group}
    else:
        text = _decoder(config)
        alike = (text.get("model_type"), text.get("vocab_size"))
        groups = {other.group for other in known() if (other.model_type, other.vocab_size) == alike and other.group != "demo"}
    return [other for other in known() if other.group in groups]


def suggest(
    address: str, device: Device, *, load: Load | None = None, config: Mapping[str, Any] | None = None, bytes_per_parameter: float | None = None
) -> list[Suggestion]:
    """At most six drafts for the target at `address`, lowest estimated c first, those that Transformers takes as they are before the padded.

    load: the target's own where known (it must be given for a model outside the table, else nothing is suggested); config: its raw
    configuration, to recognise a fine-tuned model by. bytes_per_parameter: how weights are held; float32 on a CPU, else 16 bit.
    """
    each = bytes_per_parameter or (4.0 if device is CPU else 2.0)
    row, family = find(address), relatives(address, config)
    target = load or (row.load(each) if row else None)
    if target is None:
        return []
    rows = row.vocab_size if row else _decoder(config).get("vocab_size")
    tuned = _tuned(address, row)
    smaller = [draft for draft in family if draft.multiplied_parameters * each < 0.9 * target.read_bytes]
    made = [
        _suggestion(draft, draft.address(tuned), estimate(target, draft.load(each), device), draft.vocab_size == rows, target) for draft in smaller
    ]
    return sorted(made, key=lambda one: (not one.same_size, one.estimate.c, one.model.active_parameters))[:MOST]


def _suggestion(draft: Known, address: str, made: Estimate, same_size: bool, target: Load) -> Suggestion:
    words = [f"c about {made.c:.2f}", f"{draft.layers} {'layer' if draft.layers == 1 else 'layers'} to the target's {target.layers}"]
    words.append("same tokenizer" if same_size else "same tokenizer with padded embeddings, so that Transformers asks for both tokenizers")
    if made.speedup_high <= 1:
        words.append("too dear to gain anything")
    return Suggestion(address, draft, made, same_size, f"{draft.family}: {', '.join(words)}.")


def _tuned(address: str, row: Known | None) -> bool:
    """Whether the target is tuned for chat: by the table, else by its name."""
    name = address.partition("@")[0].casefold()
    return name == row.tuned_id.casefold() if row else any(mark in name for mark in TUNED)


def _decoder(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The decoder's part of a raw configuration."""
    return (config or {}).get("text_config") or config or {}


def _known(row: Mapping[str, str]) -> Known:
    texts = ("family", "group", "base_id", "tuned_id", "model_type", "source")
    return Known(**{name: value if name in texts else int(value) for name, value in row.items()})  # pyright: ignore[reportArgumentType]
