"""Run the embedded pair side by side on this machine and keep the run as the bundled example.

    python tools/make_side_example.py

Plain decoding beside the setting that the example measurement recommends, and prompt lookup, on one bundled prompt. Run it on an idle
machine: a disturbed run is refused. It is an ordinary run of the ordinary worker; only the host's name and the models' absolute paths
are taken out, times are rounded to microseconds, and what a step has by default is not repeated.
"""

import json
import random
from typing import Any

from make_example import measured, shareable

from core import demo
from core.analysis import Analysis, analyse
from core.policies import Plain, Policy, PromptLookup
from core.runs import Lane, Run, RunSpec
from core.trace_file import pack_traces

PROMPT = 16
TOKENS = 48
LOOKUP = PromptLookup(10)


def main() -> None:
    """Run, check, write core/demo/example/."""
    run = measured(spec(recommended()))
    if run.disturbed:
        raise SystemExit("the machine was disturbed while the example was written; stop what else runs and try again")
    folder = demo.FOLDER / "example"
    (folder / "side.json").write_text(packed(shareable(run)), encoding="utf-8")
    (folder / "side_traces.npz").write_bytes(pack_traces(run.traces))


def recommended() -> Policy:
    """The recommended setting of the bundled measurement."""
    found = analyse(demo.example_run())
    if not isinstance(found, Analysis):
        raise SystemExit("the bundled measurement gives no answer; make it first with tools/make_example.py")
    return found.advice.policy


def spec(policy: Policy) -> RunSpec:
    """What is run; the order is drawn, as in the app."""
    lanes = (Lane(policy=Plain()), Lane(policy=policy), Lane(policy=LOOKUP))
    return RunSpec(
        target=demo.TARGET,
        draft=demo.DRAFT,
        prompts=(demo.prompts()[PROMPT],),
        max_new_tokens=TOKENS,
        extent="side_by_side",
        lanes=lanes,
        order=tuple(random.sample(range(len(lanes)), len(lanes))),
        reference="example",
    )


def packed(run: Run) -> str:
    """The run as one line of JSON."""
    content = run.model_dump(mode="json")
    content["steps"] = [step.model_dump(mode="json", exclude_defaults=True) for step in run.steps]
    return json.dumps(rounded(content), ensure_ascii=False, separators=(",", ":")) + "\n"


def rounded(value: Any) -> Any:
    """The same with every number to six decimals."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
