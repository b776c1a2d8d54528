"""Coverage-guided fuzzing of every parser that reads what others wrote: which code is reached, what breaks, how long and how much memory.

    pip install atheris==3.0.0        (into an environment of its own, or with --target and PYTHONPATH; Linux, Python 3.11 to 3.13)
    python -m benchmarks.fuzz [seconds] [parser ...]

Atheris is libFuzzer for Python: it watches which branches of `core` an input takes and keeps inputs that take new ones. It begins with
the valid documents of `tests.documents`, and besides its own changes of bytes it makes those of `tests.mutations`, which keep JSON readable. An
input breaks a parser when anything but a DraftgaugeError with a sentence comes out, when it takes more than SLOWEST_S (libFuzzer ends the
process), or more than MOST_MB of memory. What broke is kept in the working folder as crash-..., timeout-... or oom-..., and
`python -m benchmarks.fuzz 0 PARSER FILE` reads it once more. Each parser has a process of its own, one after the other.
Not covered: libraries in Rust and C++ (only what they let through is seen), and pages (`tests/test_fuzz.py`).
"""

import importlib
import logging
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SECONDS, SLOWEST_S, MOST_MB = 120, 30, 2_000
LARGEST_BYTES = 20_000
STEPS = re.compile(r"^#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+) corp: (\d+)/", re.MULTILINE)
STATISTIC = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)
ONE = "--one"


def main() -> None:
    """Fuzz the parsers that are named, or all, and print a row for each."""
    if sys.argv[1:2] == [ONE]:
        one(sys.argv[2], sys.argv[3:])
        return
    from tests.parsers import PARSERS

    seconds, names = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS, sys.argv[2:3] if sys.argv[1:2] == ["0"] else sys.argv[2:]
    files = sys.argv[3:] if seconds == 0 else []
    print("| parser | inputs | branches | largest memory, MB | slowest, s | found |\n|---|---|---|---|---|---|")
    for name in names or PARSERS:
        print(row(name, seconds, files), flush=True)


def row(name: str, seconds: int, files: list[str]) -> str:
    """One parser's figures, as a row of a table."""
    limits = [f"-max_total_time={seconds}", f"-timeout={SLOWEST_S}", f"-rss_limit_mb={MOST_MB}", f"-max_len={LARGEST_BYTES}", "-len_control=0"]
    command = [sys.executable, "-m", "benchmarks.fuzz", ONE, name, "-print_final_stats=1", *limits, *files]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    reached, figures = STEPS.search(done.stderr), dict(STATISTIC.findall(done.stderr))
    found = "nothing" if done.returncode == 0 else " ".join(line for line in done.stderr.splitlines() if "Error" in line or "SUMMARY" in line)[:300]
    branches = reached[2] if reached else "-"
    shown = (figures.get(key, "-") for key in ("number_of_executed_units", "peak_rss_mb", "slowest_unit_time_sec"))
    inputs, memory, slowest = shown
    return f"| {name} | {inputs} | {branches} | {memory} | {slowest} | {found} |"


def one(name: str, options: list[str]) -> None:
    """Fuzz one parser in this process, which ends with it."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["core"]):
        from tests import parsers
    from tests.documents import SEEDS
    from tests.mutations import changed_bytes, changed_json

    logging.disable()
    parser = parsers.PARSERS[name]

    def mutate(content: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return atheris.Mutate(content, most)
        return (changed_json if parser.tree and rng.random() < 0.8 else changed_bytes)(content, rng)[:most]

    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(SEEDS[name]()):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup(
            [sys.argv[0], *options, *([] if options[-1:] and not options[-1].startswith("-") else [corpus])],
            lambda content: parsers.harmless(parser, content, Path(folder)),
            custom_mutator=mutate,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
