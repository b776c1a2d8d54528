"""What a smoke test says: eight tokens of the first prompt, written plain and with the draft.

It tells within seconds whether a pair runs at all: equal answers, and at least one token of the
draft's accepted. It says nothing about speed: one prompt, eight tokens, no warm-up. Unit: tokens.
"""

from dataclasses import dataclass

from core.errors import NotMeasured
from core.measured import Generation
from core.placement import exact, format_words
from core.policies import Drafting, FixedGamma
from core.runs import Run, RunSpec

TOKENS = 8
POLICY = FixedGamma(4)


@dataclass(frozen=True)
class SmokeResult:
    """`accepted` of the assisted answer's `tokens` came from the draft, in `rounds` rounds; each round emits one token of the target's own."""

    equal: bool
    accepted: int
    rounds: int
    tokens: int
    sentence: str

    @property
    def passed(self) -> bool:
        """Whether the answers are equal and the draft had a part in them."""
        return self.equal and self.accepted > 0


def smoke_result(run: Run) -> SmokeResult:
    """What came of a smoke test. Raises NotMeasured when the run ended before both answers were written."""
    assisted = next((g for g in run.generations if g.purpose == "smoke" and isinstance(g.policy, Drafting)), None)
    if assisted is None:
        raise NotMeasured("The smoke test ended before both answers were written. Run it again.")
    accepted = assisted.tokens - len(assisted.rounds)
    equal = assisted.equal is True
    sentence = _equal(assisted.tokens, accepted) if equal else _different(assisted, run.spec)
    return SmokeResult(equal, accepted, len(assisted.rounds), assisted.tokens, sentence)


def _equal(tokens: int, accepted: int) -> str:
    came = f"{_counted(tokens)} came out equal, plain and assisted"
    if accepted:
        return f"{came}; {accepted} of {tokens} {'was' if accepted == 1 else 'were'} drafted."
    if tokens == 1:
        return f"{came}, and the answer ends there, so that nothing could be drafted. Try another prompt."
    return f"{came}, but nothing that was drafted was accepted: the pair runs but will hardly be faster."


def _different(assisted: Generation, spec: RunSpec) -> str:
    at = 0 if assisted.first_difference is None else assisted.first_difference
    where = f"Token {at + 1} differs between plain and assisted decoding."
    if exact(spec):
        return f"{where} In float32 both should write the same; do not rely on this pair before you know why."
    return (
        f"{where} In {format_words(spec)} two nearly equal choices can round either way, so this need not be an error; a smoke test in float32 tells."
    )


def _counted(tokens: int) -> str:
    words = ("One token", "Two tokens", "Three tokens", "Four tokens", "Five tokens", "Six tokens", "Seven tokens", "Eight tokens")
    return words[tokens - 1] if 1 <= tokens <= len(words) else f"{tokens} tokens"
