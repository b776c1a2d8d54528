"""The page's one sentence about a target and its drafts, and how it is known."""

from core.candidates import Known, View
from core.ui import look, numbers

OLD_S = 3600.0
WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six")


def headline(view: View, device: str) -> None:
    """How many drafts fit and which one to measure; what is still being read; or why the target cannot be used."""
    look.headline(*words(view, device))


def words(view: View, device: str) -> tuple[str, str]:
    """The headline and the line under it."""
    target = look.plain(view.target.name)
    if view.target.problem:
        cannot = "could not be read: sizes and costs only" if view.target.shape else "cannot be the target"
        return f"{target} {cannot}", look.plain(view.target.problem)
    decided = [draft for draft in view.drafts if draft.verdict_value or draft.problem]
    if not decided or (view.waiting and not any(draft.fits for draft in decided)):
        return f"Reading {target} and {numbers.counted(len(view.drafts), 'draft')}", _sources(view)
    so_far = f"{len(decided)} of {len(view.drafts)} drafts read so far." if len(decided) < len(view.drafts) else ""
    return _verdict(view), " ".join(part for part in (_expect(view, device), so_far, _sources(view)) if part)


def _verdict(view: View) -> str:
    best, total = view.best, len(view.drafts)
    fit = sum(draft.fits for draft in view.drafts)
    if best is None and all(draft.problem for draft in view.drafts):
        cannot = "used" if view.drafts[0].model.refusal else "compared"
        return f"{look.plain(view.drafts[0].model.name)} cannot be {cannot}" if total == 1 else "No draft can be compared"
    if best is None:
        return "This draft does not fit as it is" if total == 1 else f"None of {WORDS[total].lower()} drafts fits as it is"
    name = look.plain(best.model.name)
    how_many = f"{name} fits" if total == 1 else f"{WORDS[fit]} of {WORDS[total].lower()} drafts fit{'s' if fit == 1 else ''}"
    if best.estimate is None:
        return how_many
    if best.estimate.speedup_high <= 1:
        return f"{how_many}, but :orange[{'none is' if fit > 1 else 'it is not'} likely to pay]"
    return f":green[{name}] fits and looks worth measuring" if total == 1 else f"{how_many}; :green[{name}] looks worth measuring"


def _expect(view: View, device: str) -> str:
    found = view.best.estimate if view.best else None
    if found is None:
        return ""
    off = ", where 1x means better left off" if found.speedup_low <= 1 else ""
    span = f"**{numbers.ratio(found.speedup_low)} to {numbers.ratio(found.speedup_high)}**"
    return f"Expect {span} on {look.plain(device)}{off}. {look.ORIGINS['estimate']}"


def _sources(view: View) -> str:
    """What was read for all this, in bytes over the network, and how long ago."""
    known = [model.info for model in (view.target, *(draft.model for draft in view.drafts)) if isinstance(model.info, Known)]
    read = sum(info.value.bytes_read for info in known)
    size = f", {numbers.file_size(read)} read" if read else ""
    oldest = max((info.age_s for info in known if info.value.ref.source == "hub"), default=0.0)
    old = f" {numbers.age(oldest)}" if oldest >= OLD_S else ""
    return f":small[:gray[From configs and tokenizers{size}{old}, no weights.]]"
