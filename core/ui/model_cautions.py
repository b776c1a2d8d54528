"""What to know of the chosen models before they are measured, as far as it follows from their configs and from the prompts' length.

Refusals stand with the drafts (`core.ui.ways_form`). Units: tokens; a prompt's are guessed from its characters, and said to be about right.
"""

from collections.abc import Sequence

from core.candidates import Model, View
from core.planner import Failed
from core.runs import Prompt
from core.ui import numbers
from core.ui.begin_note import guessed_tokens


def cautions(view: View, prompts: Sequence[Prompt], max_new_tokens: int) -> list[str]:
    """A sentence each: sizes that could not be computed, so that it may not load; a window shorter than the longest text."""
    longest = max(guessed_tokens(prompts), default=0)
    models = [view.target, *(draft.model for draft in view.drafts)]
    said = [sentence for model in models for sentence in (_unsized(model), _window(model, longest, max_new_tokens)) if sentence]
    return list(dict.fromkeys(said))


def _unsized(model: Model) -> str:
    if not isinstance(model.profile, Failed) or model.profile.unbuildable:
        return ""
    return f"Whether {model.name} can be loaded is not known, because its sizes are not: {model.profile.sentence}"


def _window(model: Model, prompt_tokens: int, new_tokens: int) -> str:
    windows = [layer.window for layer in model.sizes.per_layer if layer.window] if model.sizes else []
    need = prompt_tokens + new_tokens
    if not prompt_tokens or not windows or min(windows) >= need:
        return ""
    than = "prompt alone" if min(windows) < prompt_tokens else "prompt with its answer"
    sees = f"{numbers.counted(len(windows), 'layer')} of {model.name} {'sees' if len(windows) == 1 else 'see'}"
    about = prompt_tokens if than == "prompt alone" else need
    return (
        f"{sees} only the last {min(windows):,} tokens, fewer than your longest {than} (about {about:,}). Rejected tokens are taken back rightly "
        "there too; a draft that sees less than its target may be right less often late in the text."
    )
