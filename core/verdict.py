"""The answer of a run in sentences, for pages, reports and summaries alike. Speedups are ratios to plain decoding, decode only.

`mark` puts a speedup in the colours of where it is shown; by itself the text is plain.
"""

from collections.abc import Callable
from typing import Literal

from core import numbers
from core.analysis import Analysis, sentence_case
from core.measured import Generation
from core.policies import Drafting, Plain, Policy, TransformersDefault, describe
from core.recommend import Recommendation
from core.runs import Run

Tone = Literal["faster", "slower"]
Mark = Callable[[str, Tone], str]


def unmarked(text: str, _tone: Tone) -> str:
    """The text as it is."""
    return text


def sentence(advice: Recommendation, mark: Mark = unmarked) -> str:
    """The verdict in one line, for a headline."""
    if advice.verdict == "undecided":
        if round(advice.speedup, 2) <= 1:
            would_tell = more_prompts(advice.prompts_needed) if advice.prompts_needed else "a real run on all prompts says"
            return off_unless(would_tell, "the best setting so far", advice.speedup, mark)
        needed = f"about {numbers.counted(advice.prompts_needed, 'more prompt')}" if advice.prompts_needed else "a real run on all prompts"
        return f"Not decided yet: {needed} would tell"
    speed = numbers.speed(advice.speedup)
    if advice.verdict == "leave_off":
        slower = round(advice.speedup, 2) < 1
        best = "the best setting that was run" if advice.confirmed else "the best setting"
        return f"Leave drafting off: {best} reaches {mark(speed, 'slower') if slower else f'only {speed}'}"
    return f"{instruction(advice.policy)}: {mark(speed, 'faster')}{'' if advice.confirmed else ', predicted'}"


def off_unless(would_tell: str, best: str, speedup: float, mark: Mark = unmarked) -> str:
    """What to do while nothing is decided and nothing beats plain so far. would_tell: what would decide it, with its verb."""
    speed = numbers.speed(speedup)
    reached = mark(speed, "slower") if round(speedup, 2) < 1 else f"only {speed}"
    return f"Leave drafting off unless {would_tell} otherwise: {best} reaches {reached}"


def more_prompts(needed: int | None) -> str:
    """About how many more prompts would decide, with the verb of `off_unless`."""
    return f"about {numbers.counted(needed, 'more prompt')} {'says' if needed == 1 else 'say'}" if needed else "more prompts say"


def instruction(policy: Policy) -> str:
    """What to do, said to a person."""
    if policy == TransformersDefault():
        return "Keep the library's default"
    if isinstance(policy, Drafting) and policy.schedule == "constant":
        if policy.threshold:
            return f"Draft up to {policy.limit} tokens, stop below a confidence of {policy.threshold:g}"
        return "Draft 1 token at a time" if policy.limit == 1 else f"Draft {policy.limit} tokens at a time"
    return f"Use {describe(policy)}"


def facts(analysis: Analysis) -> tuple[str, ...]:
    """Whose the number is when it is not in the headline, and both intervals; plain text, parts of one sentence without its end."""
    advice = analysis.advice
    these, traffic = numbers.interval(advice.on_these_prompts), numbers.interval(advice.for_traffic)
    if advice.verdict != "use":
        so_far = "so far " if advice.verdict == "undecided" else ""
        these = f"{so_far}{describe(advice.policy)} gives {numbers.ratio(advice.speedup)} {these}".strip()
    found = (f"{these} on these prompts" if these else "", f"{traffic} for traffic like these" if traffic else "")
    none = "" if traffic else "too few prompts for an interval for other traffic"
    first, *rest = (fact for fact in (*found, none) if fact)
    return (sentence_case(first), *rest)


def formula(analysis: Analysis) -> str:
    """What the classical formula would have said."""
    found = analysis.formula
    return f"The classical formula would have said {numbers.ratio(float(found.max()))} at gamma {int(found.argmax()) + 1}."


def reasons(analysis: Analysis) -> str:
    """Why this answer, beyond what the facts say: the traffic, the runner-up, what was not tried."""
    return " ".join(sentence_case(reason) for reason in analysis.advice.reasons[1:]).replace("+-", "±")


def origin(analysis: Analysis) -> Literal["confirmed", "replayed"]:
    """How the recommended setting's speedup is known."""
    return "confirmed" if analysis.advice.confirmed else "replayed"


def assisted(run: Run) -> list[Generation]:
    """The real runs with a draft or prompt lookup whose answer was compared with the plain one."""
    return [g for g in run.generations if g.equal is not None and not isinstance(g.policy, Plain)]


def differing(run: Run) -> list[Generation]:
    """The assisted answers that are not equal to the plain ones."""
    return [g for g in assisted(run) if not g.equal]
