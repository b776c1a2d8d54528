"""What all stored records have in common, and the records that stand beside a run's measurements.

Here rather than in `core.runs` because they need nothing of it. Times in seconds.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """Frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Step(Record):
    """What one round of a side-by-side run wrote, in the order it was streamed; in plain decoding one token.

    lane: place of its column in the spec's lanes. at_s: when its tokens were out, since the lane's call began.
    tokens, pieces: the tokens' ids and texts, one text per id; together the pieces are the exact text, so a character that is split
        over several tokens stands with its last one and the others are empty.
    drafted: tokens proposed in this round; the first `accepted` of `tokens` are among them, the last token is the target's own.
    rejected: texts of the proposed tokens that were thrown away, the first of them where the target disagreed.
    draft_s, verify_s: spent in the draft's and in the target's passes; the rest of the round is the loop's own.
    """

    lane: int
    at_s: float
    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    drafted: int = 0
    accepted: int = 0
    rejected: tuple[str, ...] = ()
    draft_s: float = 0.0
    verify_s: float = 0.0


class Summary(Record):
    """The answer of a finished measurement, kept beside it so that lists of runs need not compute it again.

    policy: the recommended setting in words. speedup with its interval on these prompts; traffic: the interval for traffic like
    these, where there are prompts enough. alpha as defined in `core.acceptance`; c in one real loop (`core.timing`); None for a run in
    several ways, which replays nothing and so cannot tell.
    """

    verdict: Literal["use", "leave_off", "undecided"]
    policy: str
    speedup: float
    low: float
    high: float
    traffic: tuple[float, float] | None = None
    confirmed: bool
    alpha: float | None = None
    c: float | None = None


Source = Literal["draftgauge", "alpha_c", "vllm", "vllm_prometheus", "llama_cpp", "published"]


class Imported(Record):
    """Where a run came from that was not measured by this installation, and what is known of it when it has no traces.

    source: draftgauge = a whole run, measured elsewhere; otherwise two numbers, an engine's own records, or a paper's table.
    alpha as defined in `core.acceptance` after conversion from the source's own definition; None for a whole run or where the source
    cannot tell. c: cost of a draft step, where it is given. gamma: draft length of the source. accepted, drafted, rounds: its counts.
    definition: in words, how the source counts and how that was converted. reference: its document or file name. speedup: as published.
    """

    source: Source
    alpha: float | None = Field(default=None, ge=0, le=1)
    c: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    gamma: int | None = Field(default=None, ge=1, le=1000)
    accepted: int | None = Field(default=None, ge=0)
    drafted: int | None = Field(default=None, ge=0)
    rounds: int | None = Field(default=None, ge=0)
    speedup: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    definition: str = ""
    reference: str = ""
