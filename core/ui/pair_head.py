"""The page's one sentence about a target and its drafts, and how it is known."""

from core.candidates import Candidate, Known, View
from core.ui import look, numbers

WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


def headline(view: View, device: str) -> None:
    """How many drafts fit and which one to measure; what is still being read; or why the target cannot be used."""
    look.headline(*words(view, device))


def words(view: View, device: str) -> tuple[str, str]:
    """The headline and the line under it."""
    target = look.plain(view.target.name)
    if view.target.problem:
        return f"{target} cannot be the target", look.plain(view.target.problem)
    count = numbers.counted(len(view.drafts), "draft")
    if view.waiting:
        done = sum(draft.verdict_value is not None or bool(draft.problem) for draft in view.drafts)
        return f"Reading {target} and {count}", f"{done} of {len(view.drafts)} done. {_sources(view)}"
    best = view.best
    return _verdict(view, best), f"{_expect(best, device)} {_sources(view)}".strip()


def _verdict(view: View, best: Candidate | None) -> str:
    fit = sum(draft.fits for draft in view.drafts)
    total = len(view.drafts)
    if not fit:
        return f":orange[{_none_of(total)}]: see what else could be tried"
    how_many = f"{WORDS[fit]} of {WORDS[total].lower()} drafts fit{'s' if fit == 1 else ''}"
    if total == 1:
        how_many = f"{look.plain(view.drafts[0].model.name)} fits"
    if best is None or best.estimate is None:
        return f"{how_many}; what it may gain is not known yet"
    if best.estimate.speedup_high <= 1:
        return f"{how_many}, but :orange[{'none is' if fit > 1 else 'it is not'} likely to pay]"
    if total == 1:
        return f":green[{look.plain(best.model.name)}] fits and looks worth measuring"
    return f"{how_many}; :green[{look.plain(best.model.name)}] looks worth measuring"


def _none_of(total: int) -> str:
    return "This draft does not fit" if total == 1 else f"None of {WORDS[total].lower()} drafts fits"


def _expect(best: Candidate | None, device: str) -> str:
    if best is None or best.estimate is None:
        return ""
    found = best.estimate
    span = f"**{numbers.ratio(found.speedup_low)} to {numbers.ratio(found.speedup_high)}**"
    off = " where 1x means: better left off" if found.speedup_low <= 1 else ""
    return (
        f"Expect {span} on {look.plain(device)},{off} {look.ORIGINS['estimate']}"
        if off
        else f"Expect {span} on {look.plain(device)}. {look.ORIGINS['estimate']}"
    )


def _sources(view: View) -> str:
    """What was read for all this, in bytes over the network."""
    infos = [model.info.value for model in (view.target, *(draft.model for draft in view.drafts)) if isinstance(model.info, Known)]
    read = sum(info.bytes_read for info in infos)
    size = f"{numbers.file_size(read)} read" if read else "nothing downloaded"
    return f":small[:gray[From configs and tokenizers, {size}, no weights.]]"
