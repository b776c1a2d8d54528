"""Settings of a measurement as they were typed: what they mean, and a sentence for each that cannot be used.

Forms take whatever is typed, so that nothing is lost on an error; here it is judged. Units: tokens, and seconds (_s).
Not covered: models and prompts, which have judges of their own.
"""

from dataclasses import dataclass

from core.bench import MOST_NEW_TOKENS
from core.decoding import Decoding
from core.runs import CONFIRM_S

MOST_STOPS, LONGEST_STOP = 16, 200
MOST_TOP_K = 1_000_000
MOST_SEED = 2**53 - 1
"""The largest whole number that browsers keep exact."""
MOST_CONFIRM_S = 86_400


@dataclass(frozen=True)
class Typed:
    """What a form holds. The names are those of `Decoding` and `RunSpec`; draft_temperature is None where it was left empty.

    stop: one stop string per line, in which \\n and \\t stand for a line break and a tab.
    """

    sample: bool = False
    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    warpers_once: bool = False
    draft_temperature: float | None = None
    stop: str = ""
    max_new_tokens: int = 40
    seed: int = 0
    confirm_s: float = CONFIRM_S

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for each value that cannot be used; none when all can. What greedy decoding does not look at is not judged."""
        sampling = [
            _open("Temperature", self.temperature, 10, "For the likeliest token every time choose greedy."),
            _between("Top-k", self.top_k, 0, MOST_TOP_K, "0 leaves it off."),
            _open("Top-p", self.top_p, 1, "1 leaves it off."),
            _open("Draft temperature", self.draft_temperature, 10, "Empty, the draft has the target's."),
        ]
        every = [
            _between("Repetition penalty", self.repetition_penalty, 0.1, 10, "1 leaves it off."),
            *self._stop_problems(),
            _tokens(self.max_new_tokens),
            _between("Seed", self.seed, 0, MOST_SEED),
            _between("Seconds for the confirmation", self.confirm_s, 0, MOST_CONFIRM_S, "With 0 nothing is confirmed."),
        ]
        return tuple(sentence for sentence in [*(sampling if self.sample else []), *every] if sentence)

    @property
    def decoding(self) -> Decoding:
        """The decoding that is meant; what greedy decoding does not look at is left out. Only without problems."""
        if not self.sample:
            return Decoding(repetition_penalty=self.repetition_penalty)
        return Decoding(
            sample=True,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
            warpers_once=self.warpers_once,
            draft_temperature=None if self.draft_temperature == self.temperature else self.draft_temperature,
        )

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings, each once; spaces count."""
        lines = [line.replace("\\n", "\n").replace("\\t", "\t") for line in self.stop.splitlines()]
        return tuple(dict.fromkeys(line for line in lines if line))

    def _stop_problems(self) -> list[str]:
        found = self.stops
        many = f"{len(found)} stop strings are too many. Keep at most {MOST_STOPS}." if len(found) > MOST_STOPS else ""
        long = next((text for text in found if len(text) > LONGEST_STOP), "")
        return [many, f"The stop string that begins '{long[:20]}' has {len(long)} characters; at most {LONGEST_STOP} can be used." if long else ""]


def _between(name: str, value: float, low: float, high: float, hint: str = "") -> str:
    return "" if low <= value <= high else f"{name} {value:g} cannot be used: choose from {low:g} to {high:,}. {hint}".rstrip()


def _open(name: str, value: float | None, high: float, hint: str) -> str:
    return "" if value is None or 0 < value <= high else f"{name} {value:g} cannot be used: choose above 0 and at most {high:g}. {hint}"


def _tokens(tokens: int) -> str:
    return "" if 1 <= tokens <= MOST_NEW_TOKENS else f"{tokens} new tokens cannot be measured. Choose between 1 and {MOST_NEW_TOKENS:,}."
