"""A run in several ways in sentences: what to say of its answer, and its exact call in Transformers 5.24.

A way whose text is not the target's own, or not proven to be, is never named in an answer. Speedups are ratios to plain decoding, decode
only. `mark` puts a speedup in the colours of where it is shown; by itself the text is plain. Names in the calls: `target`, `draft`,
`head`, their tokenizers `target_tokenizer` and `draft_tokenizer`, `inputs` from the target's.
"""

from core import numbers
from core.measured import AnyPolicy
from core.policies import Drafting, EarlyExit, OwnHeads, Plain, describe, to_transformers
from core.runs import Run
from core.verdict import Mark, more_prompts, off_unless, unmarked
from core.way_results import WayResult
from core.ways import Choice

STOPPED = ("failed", "cancelled", "interrupted")


def title(draft: str, policy: AnyPolicy) -> str:
    """A way with its draft, "" for none: "small_model with fixed gamma 5"."""
    return f"{draft} with {describe(policy)}" if draft else describe(policy)


def sentence(run: Run, found: Choice, mark: Mark = unmarked, draft: str | None = None) -> str:
    """The answer in one line, for a headline. draft: the chosen draft's name as it is to be shown, where that is not its own."""
    if found.lane is None or found.speed is None:
        return "No way to draft can be recommended" if run.generations else "Nothing was measured"
    name = title(found.draft if draft is None else draft, run.spec.lanes[found.lane].policy)
    speed = numbers.speed(found.speed.value)
    if found.verdict == "use":
        return f"Use {name}: {mark(speed, 'faster')}"
    if found.verdict == "leave_off":
        slower = round(found.speed.value, 2) < 1
        return f"Leave drafting off: the best way reaches {mark(speed, 'slower') if slower else f'only {speed}'}"
    if round(found.speed.value, 2) <= 1:
        return off_unless(more_prompts(found.prompts_needed), name, found.speed.value, mark)
    needed = f"; about {numbers.counted(found.prompts_needed, 'more prompt')} would tell" if found.prompts_needed else ""
    return f"Not decided yet: {name} leads with {numbers.ratio(found.speed.value)}{needed}"


def equality(run: Run, way: WayResult) -> str:
    """How many answers are the plain one, token by token, and what came of the others; why nothing was compared."""
    if isinstance(run.spec.lanes[way.lane].policy, Plain):
        return "reference"
    if run.spec.decoding.sample:
        return "drawn, not compared"
    others = ((way.near_ties, "near tie"), (way.real, "real difference"), (way.unexplained, "unexplained"))
    parts = [numbers.counted(count, word) if word != "unexplained" else f"{count} {word}" for count, word in others if count]
    return ", ".join([f"{way.equal} of {way.compared}", *parts])


def why_not(way: WayResult) -> str:
    """Why a way that was timed is not to be used."""
    if not way.lossless:
        return f"Lossy. {way.lossless_reason}"
    verb = "differs" if way.unexplained == 1 else "differ"
    return f"Not proven. {numbers.counted(way.unexplained, 'answer')} of {way.compared} {verb} from plain, and why was not found out."


def call(policy: AnyPolicy, *, translated: bool = False) -> str:
    """The lines that draft in this way."""
    settings = to_transformers(policy)
    both = ", tokenizer=target_tokenizer, assistant_tokenizer=draft_tokenizer" if translated else ""
    match policy:
        case Drafting():
            return "\n".join([*_set("draft", settings), f"target.generate(**inputs, assistant_model=draft{both})"])
        case EarlyExit():
            layers = settings.pop("assistant_early_exit")
            return "\n".join([*_set("target", settings), f"target.generate(**inputs, assistant_early_exit={layers})"])
        case OwnHeads(method="dflash"):
            return 'target.generate(**inputs, assistant_model=head, speculation_type="dflash")'
        case _:
            return f"target.generate({', '.join(['**inputs', *(f'{name}={value!r}' for name, value in settings.items())])})"


def _set(model: str, settings: dict[str, int | float | str]) -> list[str]:
    return [f"{model}.generation_config.{name} = {value!r}" for name, value in settings.items()]
