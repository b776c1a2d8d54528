"""How far estimated c and speedup ranges are from published and own measurements: `python -m benchmarks.c_estimate`.

c is checked as the ratio of two decoding speeds of one system (tests/data/decode_speeds.csv), against the paper's
three T5 drafts, and in the bundled run; a speedup counts as covered when it lies in the estimated range. The T5 row of the TPU's
layer cost was fitted to T5-small alone; T5-base and T5-large are then predictions.
"""

import csv
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import NamedTuple

from core import demo
from core.devices import CPU, Band, Device, engine, gpu
from core.estimate import Estimate, Load, estimate
from core.timing import LoopCosts

DATA = Path(__file__).parent.parent / "tests" / "data"

M4_MAX = Device(
    name="M4 Max, llama.cpp",
    bandwidth_bytes_s=Band(0.75, 0.88, 0.95).times(546e9),
    layer_s=Band(0.0, 0.04e-3, 0.1e-3),
    step_s=Band(0.0, 0.2e-3, 1e-3),
    overlap=False,
    verify_jump=Band(0.0, 0.1, 0.6),
    verify_slope=Band(0.0, 0.05, 0.15),
    round_s=Band(0.0, 0.5e-3, 2e-3),
)
TPU_V4 = Device(
    name="TPU-v4",
    bandwidth_bytes_s=Band(0.8, 1.0, 1.0).times(1200e9),
    layer_s=Band(0.012e-3, 0.016e-3, 0.02e-3),
    step_s=Band(0.0, 0.0, 0.02e-3),
    overlap=False,
    verify_jump=Band(0.0, 0.0, 0.1),
    verify_slope=Band(0.0, 0.005, 0.03),
    round_s=Band(0.0, 0.0, 0.1e-3),
)
SYSTEMS = {
    "A100 80GB, Transformers 4.46": gpu("A100 80GB", 2039),
    "H20 96GB, Transformers 4.51": gpu("H20", 4000),
    "A100 80GB, vLLM 0.6.3 with graphs": engine("A100 80GB, vLLM", 2039),
    "M4 Max 128GB, llama.cpp": M4_MAX,
    "AMD EPYC, one thread, Transformers 5.24": CPU,
}
T5 = {"T5-XXL 11B": (24, 4096, 10240, 4096), "T5-small": (8, 512, 1024, 384), "T5-base": (12, 768, 2048, 768), "T5-large": (24, 1024, 2816, 1024)}
"""T5 v1.1 decoders: layers, width, feed-forward width, width of all heads. google/t5-v1_1-* config.json"""
FORMATS = {"FP16": 16, "Q8_0": 8.5, "Q6_K": 6.5625, "Q5_0": 5.5, "Q4_0": 4.5}
"""Bits per weight by the block sizes of ggml-common.h; the K_M mixtures are left out."""


class Case(NamedTuple):
    """One pair: the estimate and what was measured."""

    name: str
    made: Estimate
    measured: float


def rows(name: str) -> list[dict[str, str]]:
    """A file of tests/data."""
    with (DATA / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load(layers: int, parameters: float, bytes_per_parameter: float) -> Load:
    """A dense model."""
    return Load(layers, parameters * bytes_per_parameter, parameters * bytes_per_parameter)


def speeds(system: str) -> list[Case]:
    """Each smaller model of a system in front of each larger one."""
    of = [row for row in rows("decode_speeds.csv") if row["system"] == system]
    loads = [(load(int(row["layers"]), float(row["multiplied_parameters"]), float(row["bytes_per_parameter"])), row) for row in of]
    pairs = [pair for pair in combinations(sorted(loads, key=lambda one: one[0].read_bytes), 2) if _differs(*pair)]
    return [
        Case(
            f"{large[1]['model']} + {small[1]['model']}",
            estimate(large[0], small[0], SYSTEMS[system]),
            float(large[1]["tokens_per_s"]) / float(small[1]["tokens_per_s"]),
        )
        for small, large in pairs
    ]


def _differs(small: tuple[Load, dict[str, str]], large: tuple[Load, dict[str, str]]) -> bool:
    return float(small[1]["multiplied_parameters"]) < float(large[1]["multiplied_parameters"])


def t5_load(name: str) -> Load:
    """A T5 decoder's step: self attention, the query and output side of cross attention, a gated feed-forward, the head; bf16."""
    layers, width, inner, heads = T5[name]
    return load(layers, layers * (6 * width * heads + 3 * width * inner) + 32128 * width, 2)


def paper() -> list[Case]:
    """Table 2 of Leviathan et al. 2022."""
    costs = {row["draft"]: float(row["c"]) for row in rows("leviathan_table2_table4.csv")}
    return [Case(name, estimate(t5_load("T5-XXL 11B"), t5_load(name), TPU_V4), c) for name, c in costs.items()]


def bundled() -> list[Case]:
    """The demo pair's c inside the real loop."""
    run = demo.example_run()
    there = run.environment
    if there is None:
        return []
    cached = 154 * 2 * 3 * 64 * 4
    target = Load(there.target_layers, there.target_parameters * 4, there.target_parameters * 4, cached * there.target_layers)
    draft = Load(there.draft_layers, there.draft_parameters * 4, there.draft_parameters * 4, cached * there.draft_layers)
    return [Case("demo pair", estimate(target, draft, CPU), LoopCosts.from_run(run).c)]


def c_cases() -> dict[str, list[Case]]:
    """Every pair whose c is known, by source."""
    return {system: speeds(system) for system in SYSTEMS} | {"TPU-v4, the paper's T5": paper(), "bundled run, in the loop": bundled()}


def draftbench() -> list[Case]:
    """Measured speedups of Qwen2.5 pairs in llama.cpp."""
    sizes = {"0.5B": (24, 494032768), "1.5B": (28, 1543714304), "3B": (36, 3085938688), "7B": (28, 7070619136)}
    sizes |= {"14B": (48, 13991465984), "32B": (64, 31985308672), "72B": (80, 71460495360)}

    def of(name: str) -> Load | None:
        size, form = name.split()
        return load(*sizes[size], FORMATS[form] / 8) if form in FORMATS else None

    found = [(row, of(row["target"]), of(row["draft"])) for row in rows("draftbench_qwen25_m4max.csv") if row["draft"]]
    return [Case(f"{row['target']} + {row['draft']}", estimate(t, d, M4_MAX), float(row["speedup_vs_plain"])) for row, t, d in found if t and d]


def dynamic() -> list[Case]:
    """Speedups of the library's dynamic schedule on an RTX 4090, for the decoder-only pairs of the table; OPT and Llama in 16 bits."""
    sizes = {
        "facebook/opt-6.7b": (32, 6658473984 - 2050 * 4096),
        "facebook/opt-125m": (12, 125239296 - 2050 * 768),
        "meta-llama/Llama-3.1-8B": (32, 8030261248 - 128256 * 4096),
        "meta-llama/Llama-3.2-1B": (16, 1235814400),
    }
    device = gpu("RTX 4090", 1008)
    return [
        Case(row["draft"], estimate(load(*sizes[row["target"]], 2), load(*sizes[row["draft"]], 2), device), float(row["speedup_dynamic"]))
        for row in rows("hf_dynamic_speculation.csv")
        if row["target"] in sizes
    ]


def paper_speedups() -> list[Case]:
    """The paper's measured speedups."""
    table = rows("leviathan_table2_table4.csv")
    return [Case(row["draft"], estimate(t5_load("T5-XXL 11B"), t5_load(row["draft"]), TPU_V4), float(row["paper_measured_speedup"])) for row in table]


def speedup_cases() -> dict[str, list[Case]]:
    """Every measured speedup, by source."""
    return {"M4 Max, llama.cpp (draftbench)": draftbench(), "RTX 4090, dynamic schedule": dynamic(), "TPU-v4, the paper's T5": paper_speedups()}


def main() -> None:
    """Print both tables."""
    every: list[Case] = []
    for name, cases in c_cases().items():
        every += cases
        errors = [abs(case.made.c / case.measured - 1) for case in cases]
        inside = sum(case.made.low <= case.measured <= case.made.high for case in cases)
        print(
            f"{name:44} c: {len(cases):3} pairs, error median {median(errors):5.1%}, worst {max(errors):5.1%}, inside the range {inside}/{len(cases)}"
        )
    errors = [abs(case.made.c / case.measured - 1) for case in every]
    inside = sum(case.made.low <= case.measured <= case.made.high for case in every)
    print(f"{'all':44} c: {len(every):3} pairs, error median {median(errors):5.1%}, worst {max(errors):5.1%}, inside the range {inside}/{len(every)}")
    for name, cases in speedup_cases().items():
        inside = sum(case.made.speedup_low <= case.measured <= case.made.speedup_high for case in cases)
        width = median(case.made.speedup_high / case.made.speedup_low for case in cases)
        print(f"{name:44} speedup: {inside}/{len(cases)} inside; median high/low {width:.2f}")


if __name__ == "__main__":
    main()
