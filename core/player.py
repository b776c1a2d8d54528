"""A side-by-side run as one HTML document that replays it: in the page through an iframe, and as the exported file.

The document asks nothing of any network, which its own content policy enforces. Everything from the run goes in as JSON in a data
block, escaped so that no text can end the block, and from there into the page as text only; the scripts are the same for every run,
so the policy names them by their hashes. Times in seconds since each call began; figures as in `core.side`.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Literal

from core import numbers, side
from core.errors import NotMeasured
from core.palette import DARK, LIGHT
from core.policies import Drafting, Plain, PromptLookup, describe
from core.privacy import has_texts
from core.record import Step
from core.runs import Lane, Run, Status
from core.token_style import LABELS, VARIABLES, rules, variables

Theme = Literal["light", "dark", "auto"]
Placed = Literal["file", "page", "below a form"]
Json = dict[str, object]

FOLDER = Path(__file__).parent
PAGE = Template((FOLDER / "player.html").read_text(encoding="utf-8"))
CSS = (FOLDER / "player.css").read_text(encoding="utf-8")
SCRIPT = "\n" + "".join((FOLDER / name).read_text(encoding="utf-8") for name in ("player_draw.js", "player.js"))
STREAMLIT_SIZES = "sha256-DDFiVuFZGZu7dauH2HVkuyGeSeHw5ZgKt70bMpVHIwk="
"""The script that Streamlit 1.67 adds to an embedded document to learn its height; anywhere else no script has this hash."""
SURFACES = {
    "light": "--second:#F5F6F9;--edge:#DFE3EA;--accent:#2A3146;--rest:#DFE3EA;color-scheme:light;",
    "dark": "--second:#1A1F29;--edge:#2C3340;--accent:#7480A2;--rest:#2C3340;color-scheme:dark;",
}
"""What the app's theme has beyond the palette: second background, hairlines, controls; the rest of a round is as quiet as a hairline."""
LETTERS: dict[side.Writer, str] = {"plain": "p", "draft": "d", "copied": "c", "target": "t", "bonus": "b"}

OUTCOMES: dict[side.Equality, str] = {
    "equal": "Same answer",
    "near tie": "Same answer up to a near tie",
    "real difference": "Not the same answer",
    "unexplained": "Not the same answer",
    "sampled": "Two answers drawn at random",
    "lossy": "Another answer, as this setting allows",
    "unfinished": "Not finished",
}
"""What became of the text, as a headline begins."""

ENDED: dict[Status, str] = {"failed": "This run failed", "cancelled": "This run was stopped", "interrupted": "This run was interrupted"}
"""How a run ended before it was done."""

FRAMES: dict[Placed, str] = {"file": "whole", "page": "bare", "below a form": "bare lesser"}
"""Classes of the document's body."""


def player(run: Run, *, texts: bool = True, theme: Theme = "auto", placed: Placed = "file") -> str:
    """The replay of a side-by-side run, in its finished state; columns that were stopped early end where they were stopped.

    texts: False leaves prompt, answers and rejected drafts out, so that they are not in the document at all. theme: auto follows the
    reader's. placed: a page has its own heading and margins, and a form above it the primary button. Raises NotMeasured where nothing was written.
    """
    if not run.steps:
        raise NotMeasured("This run has written no tokens yet, so there is nothing to replay; wait for its first answer, or run it again.")
    style = _style(theme)
    return PAGE.substitute(
        policy=_policy(style),
        title=html.escape(f"{run.spec.target.name} with {run.spec.draft.name}, side by side"),
        style=style,
        frame=FRAMES[placed],
        data=escaped(_content(run, texts and has_texts(run))),
        script=SCRIPT,
    )


def escaped(content: object) -> str:
    """JSON that may stand in a script element: ASCII, and no character that could end the element or begin a comment."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(style: str) -> str:
    """Nothing from anywhere, but this style and these scripts."""
    scripts = " ".join(f"'{name}'" for name in script_hashes())
    return f"default-src 'none'; script-src {scripts}; style-src '{hash_of(style)}'; base-uri 'none'; form-action 'none'"


def script_hashes() -> tuple[str, str]:
    """Of the two scripts that run in an embedded replay; whatever policy the page around it has must name them too."""
    return hash_of(SCRIPT), STREAMLIT_SIZES


def hash_of(text: str) -> str:
    """As a content policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _style(theme: Theme) -> str:
    light, dark = (f":root{{{SURFACES[name]}{variables(palette)}}}" for name, palette in (("light", LIGHT), ("dark", DARK)))
    colours = {"light": light, "dark": dark, "auto": f"{light}@media (prefers-color-scheme:dark){{{dark}}}"}[theme]
    return f"\n{colours}\n{rules(VARIABLES)}\n{CSS}"


def _content(run: Run, texts: bool) -> Json:
    ratio, tone = _ratio(run)
    return {
        "texts": texts,
        "target": f"target {run.spec.target.name}",
        "draft": f"draft {run.spec.draft.name}",
        "settings": _settings(run),
        "headline": [OUTCOMES[side.comparison(run, 1).equality] + (", " if ratio else ""), ratio],
        "tone": tone,
        "facts": _facts(run),
        "warning": " ".join(_warnings(run)),
        "wrong": any(side.comparison(run, place).equality == "real difference" for place in range(1, len(run.spec.lanes))),
        "prompt": _prompt(run) if texts else [],
        "labels": LABELS,
        "lanes": [_lane(run, place, lane, texts) for place, lane in enumerate(run.spec.lanes)],
    }


def _lane(run: Run, place: int, lane: Lane, texts: bool) -> Json:
    figures = side.lane_figures(run, place)
    kind = {"plain": "plain", "lookup": "copied"}.get(lane.policy.kind, "draft")
    steps = side.steps_of(run.steps, place)
    writers = _writers(steps, lane)
    return {
        "name": lane_name(run, place),
        "detail": lane_detail(lane),
        "kind": kind,
        "word": "step" if kind == "plain" else "round",
        "end": figures.seconds,
        "tokens": figures.tokens,
        "steps": [
            [
                step.at_s,
                step.drafted,
                step.accepted,
                step.draft_s,
                step.verify_s,
                letters,
                step.pieces if texts else [],
                step.rejected if texts else [],
                len(step.rejected),
            ]
            for step, letters in zip(steps, writers, strict=True)
        ],
    }


def _writers(steps: Sequence[Step], lane: Lane) -> list[str]:
    """One letter per token, by step."""
    letters = iter(LETTERS[token.writer] for token in side.written(steps, lane.policy))
    return ["".join(next(letters) for _ in step.pieces) for step in steps]


def lane_name(run: Run, place: int) -> str:
    """What a column is called: Plain, Assisted, Prompt lookup. Where two would be the same: its setting, its draft, or its number."""
    own = run.spec.lanes[place]
    if isinstance(own.policy, Plain):
        return "Plain"
    alike = [lane for lane in run.spec.lanes if type(lane.policy) is type(own.policy)]
    if len(alike) == 1:
        return "Prompt lookup" if isinstance(own.policy, PromptLookup) else "Assisted"
    setting = describe(own.policy).capitalize()
    twins = [(lane.draft or run.spec.draft).name for lane in alike if lane.policy == own.policy]
    if len(twins) == 1:
        return setting
    return f"{setting}, {(own.draft or run.spec.draft).name if len(set(twins)) == len(twins) else f'column {place + 1}'}"


def lane_detail(lane: Lane) -> str:
    """Who writes in a column, and how, in half a line."""
    lossy = f", lossy: the draft has weight {lane.ensemble_weight:g}" if lane.ensemble_weight is not None else ""
    match lane.policy:
        case PromptLookup(tokens, ngram):
            return f"target copying up to {tokens}, n-gram {ngram}{lossy}"
        case Drafting():
            return f"target with {lane.draft.name if lane.draft else 'draft'}, {describe(lane.policy)}{lossy}"
        case _:
            return "target alone"


def _settings(run: Run) -> str:
    spec, found = run.spec, run.environment
    device = f"{found.device_name}, {found.dtype}, Transformers {found.transformers}" if found else f"{spec.device}, {spec.dtype}"
    order = ", ".join(lane_name(run, place).lower() for place in spec.order)
    template = ", chat template" if spec.chat_template else ""
    return f"{device}; {spec.decoding.words()}, up to {spec.max_new_tokens} tokens{template}; run in this order: {order}; {run.created:%Y-%m-%d}"


def _ratio(run: Run) -> tuple[str, str]:
    """The end of the headline with its tone."""
    speedup = side.speedup(run, 1)
    if speedup is None:
        return "", ""
    return numbers.speed(speedup), "faster" if round(speedup, 2) > 1 else "slower" if round(speedup, 2) < 1 else ""


def _facts(run: Run) -> str:
    plain = side.lane_figures(run, 0)
    said = [f"Plain: {numbers.counted(plain.tokens, 'token')} in {numbers.counted(plain.rounds, 'step')}."]
    return " ".join(said + [_fact(run, place) for place in range(1, len(run.spec.lanes))])


def _fact(run: Run, place: int) -> str:
    figures, decode, whole = side.lane_figures(run, place), side.speedup(run, place), side.end_to_end(run, place)
    said = f"{lane_name(run, place)}: {numbers.counted(figures.tokens, 'token')} in {numbers.counted(figures.rounds, 'round')}"
    if decode is None or whole is None:
        return f"{said}."
    return f"{said}, {numbers.ratio(decode)} in decoding, {numbers.ratio(whole)} for the whole call."


def _warnings(run: Run) -> list[str]:
    said = [sentence for place in range(1, len(run.spec.lanes)) if (sentence := _difference(run, place))]
    if run.status in ENDED:
        said.append(f"{ENDED[run.status]}; what it had written is shown.")
    if run.disturbed:
        said.append("Other programs disturbed the machine, so the times are less certain.")
    return said


def _difference(run: Run, place: int) -> str:
    found = side.comparison(run, place)
    name = lane_name(run, place)
    at = name if found.token is None else f"{name} parts from plain at token {found.token + 1}"
    margin = "" if found.margin is None else f" (margin of both choices {found.margin:.2g} in float32)"
    return {
        "equal": "",
        "unfinished": "",
        "sampled": f"{name} and plain are drawn at random, so their texts need not be the same.",
        "lossy": f"{at}: the draft has a say in this text, so it is not the target's own.",
        "near tie": f"{at}, where rounding decides between two tokens{margin}.",
        "unexplained": f"{at}; whether rounding explains it was not found out.",
        "real difference": f"{at} by more than rounding explains{margin}: that is a bug.",
    }[found.equality]


def _prompt(run: Run) -> list[tuple[str, str]]:
    prompt = run.spec.prompts[0]
    return [(message.role, message.content) for message in prompt.messages] or [("", prompt.text)]
