"""Runs, prompts and model folders whose every text tries to become something else: a script, an element, a link, a formula, a directive.

`filled` puts such a text into each field of a record that holds free text, found by the field's type, so that a field added later is hostile
too. Each text names its field, so that a test that fails says which one was drawn as more than text. For tests only.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel

from core import demo
from core.runs import Run

R = TypeVar("R", bound=BaseModel)

KEPT = {"id", "share_id", "group", "status", "kind"}
"""Ids, which only this program makes, and words that others must know."""
MARK = "betrayed"
HOST = "betray.invalid"
SHORT = "<img src=x onerror=betray() data-betrayed=short>$x$"
"""For labels, which hold 60 characters."""
PAGE_PROBES = f"""() => {{
  const found = [];
  if (window.betrayed) found.push('a script ran');
  for (const each of document.querySelectorAll('[data-{MARK}]')) found.push('an element of ' + each.dataset.{MARK});
  const honest = each => each.tagName === 'A' && each.href.replace(/\\/$/, '') === each.textContent.replace(/\\/$/, '');
  const theirs = document.querySelectorAll('[href^="https://{HOST}"], [src^="https://{HOST}"], [href^="javascript:"]');
  for (const each of theirs) if (!honest(each)) found.push('a link of ' + (each.href || each.src) + ' as ' + each.textContent);
  for (const each of document.querySelectorAll('.katex')) if (each.textContent.includes('{MARK}')) found.push('a formula: ' + each.textContent);
  for (const each of document.querySelectorAll('strong, em, del, h2 > code')) if (each.textContent.startsWith('bold{MARK}')) found.push('Markdown');
  return found;
}}"""
"""What a page must answer with nothing. An address in a text may be drawn as a link to that address, in the same words, as Markdown does it
everywhere; under other words it may not. `betray` is the function that the texts call."""
BEGIN = "window.betray = () => { window.betrayed = true; }"


def text(field: str) -> str:
    """A text that is everything at once, and says which field it was in."""
    return (
        f'=1+1</script></style></title></textarea><script>betray()</script><img src=x onerror="betray()"><svg onload=betray()>'
        f"<b data-{MARK}='{field}'>{field}</b>\"'><a href='javascript:betray()' data-{MARK}={field}>"
        f"**bold{MARK}** [{field}](https://{HOST}/{field}) ![{field}](https://{HOST}/{field}.png) $\\text{{{MARK}}}$ :red[{field}] :material/bug: "
        "`c` <!--"
    )


def filled(record: R, path: str = "") -> R:
    """The record with a hostile text in every field of free text, at any depth."""
    changes: dict[str, Any] = {}
    for name, field in type(record).model_fields.items():
        value, own = getattr(record, name), f"{path}{name}"
        changed = value if name in KEPT else _changed(value, field.annotation, own, short=_is_short(field.metadata))
        if changed is not value:
            changes[name] = changed
    return record.model_copy(update=changes)


def _is_short(metadata: list[Any]) -> bool:
    return any(getattr(rule, "max_length", None) is not None for rule in metadata)


def _changed(value: Any, annotation: Any, path: str, *, short: bool) -> Any:
    if isinstance(value, BaseModel):
        return filled(value, f"{path}.")
    if isinstance(value, str):
        free = annotation is str or str in get_args(annotation)
        return (SHORT if short else text(path)) if free else value
    if isinstance(value, tuple):
        inner = next(iter(get_args(annotation)), None)
        return tuple(_changed(each, inner, path, short=short) for each in value)
    if isinstance(value, Mapping) and get_origin(annotation) is dict and get_args(annotation)[0] is str:
        return {text(path): each for each in value}
    return value


def hostile_run(run: Run, run_id: str) -> Run:
    """A run of `tests.synthetic` or `tests.side_runs` with every text replaced, its tokens' texts too; tags and a note beside."""
    changed = filled(run.model_copy(update={"tags": ("a", "b"), "note": "x"}))
    pieces = tuple(text(f"piece{at}") if at % 7 == 0 else f"<i data-{MARK}=piece>{at}</i>" for at in range(64))
    traces = tuple(_with_pieces(trace, pieces) for trace in run.traces)
    tags = tuple(f"<b data-{MARK}=tag{at}>$x$" for at in range(2))
    return changed.model_copy(update={"id": run_id, "traces": traces, "tags": tags})


def _with_pieces(trace: Any, pieces: tuple[str, ...]) -> Any:
    from dataclasses import replace

    return replace(trace, pieces=tuple(pieces[at % len(pieces)] for at in range(len(trace.answer))))


def hostile_folder(root: Path, name: str) -> Path:
    """A whole model, the demo's draft, with a hostile name, chat template, licence and card, and hostile tokens in its tokenizer's config."""
    folder = root / name
    shutil.copytree(demo.DRAFT.path, folder)
    tokenizer = folder / "tokenizer_config.json"
    stated = json.loads(tokenizer.read_bytes()) if tokenizer.is_file() else {}
    stated |= {"chat_template": text("chat_template"), "extra_special_tokens": [f"<b data-{MARK}=token>"]}
    tokenizer.write_text(json.dumps(stated))
    (folder / "README.md").write_text(f"---\nlicense: mit\n---\n{text('card')}")
    return folder
