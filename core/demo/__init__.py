"""The embedded pair, its prompts, and a finished example run: all that works without network or GPU.

`tools/train_demo_pair.py` trains the models; their model cards name data, licence and command.
"""

import json
from pathlib import Path

from core.errors import StoreError
from core.runs import ModelRef, Prompt, Run
from core.trace_file import unpack_traces

FOLDER = Path(__file__).parent

TARGET = ModelRef(source="demo", name="Demo target", path=str(FOLDER / "target"))
DRAFT = ModelRef(source="demo", name="Demo draft", path=str(FOLDER / "draft"))


def prompts() -> tuple[Prompt, ...]:
    """The bundled prompts, each labelled with its kind. Raises StoreError when the file is missing or damaged."""
    return tuple(Prompt(text=entry["text"], label=entry["label"]) for entry in json.loads(_read("prompts.json")))


def example_run() -> Run:
    """A finished run of the embedded pair with its traces, measured by this program. Raises StoreError when damaged."""
    return _kept("run.json", "traces.npz")


def side_example() -> Run:
    """The embedded pair beside plain decoding and prompt lookup on one bundled prompt, as it really ran. Raises StoreError when damaged."""
    return _kept("side.json", "side_traces.npz")


def _kept(record: str, traces: str) -> Run:
    run = Run.model_validate_json(_read(f"example/{record}"))
    spec = run.spec.model_copy(update={"target": TARGET, "draft": DRAFT})
    return run.model_copy(update={"spec": spec, "traces": unpack_traces(_read(f"example/{traces}"))})


def _read(name: str) -> bytes:
    try:
        return (FOLDER / name).read_bytes()
    except OSError as error:
        raise StoreError(f"The bundled file {FOLDER / name} cannot be read ({error.strerror}). Install Draftgauge again.") from error
