"""What a decoding step costs on a kind of device, for estimates before anything is measured.

A step reads every multiplied weight and the cache once, and starts each layer's kernels one after another. Each figure is a
`Band`: low, likely, high. Units: seconds, bytes per second; verification in shares of a plain step. Sources stand beside the
figures. Not covered: several GPUs for one model, other requests in the batch, compiled targets.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Band(NamedTuple):
    """A figure that is known roughly: most machines lie from `low` to `high`."""

    low: float
    likely: float
    high: float

    def times(self, factor: float) -> "Band":
        """All three, scaled."""
        return Band(self.low * factor, self.likely * factor, self.high * factor)


@dataclass(frozen=True)
class Device:
    """A kind of device and the loop that drives it.

    layer_s: starting one layer's kernels. step_s: the loop around each pass. overlap: kernels are started while earlier ones
    still run, so that a step takes the longer of starting and reading; otherwise their sum. verify_jump, verify_slope: what a
    pass over several tokens costs beyond one over one token, at once and per further token, as a share of a plain step.
    round_s: what a round costs beside its passes.
    """

    name: str
    bandwidth_bytes_s: Band
    layer_s: Band
    step_s: Band
    overlap: bool
    verify_jump: Band
    verify_slope: Band
    round_s: Band


READ_SHARE = Band(0.65, 0.8, 0.95)
"""Share of a GPU's nominal bandwidth that decoding reaches. vLLM with Qwen2.5-32B on an A100 reaches 0.7 with its launches counted, llama.cpp
on an M4 Max 0.85-0.91 (tests/data/decode_speeds.csv)."""


def gpu(name: str, bandwidth_gb_s: float) -> Device:
    """A CUDA GPU under Transformers without graph capture, as assisted generation always runs there.

    layer_s: 0.88 ms on an A100 (Transformers 4.46, six Qwen2.5 models), 0.61 ms on an H20 (4.51, six Qwen3 models; Qwen's own speed
    benchmark), 0.32 ms for GPT-2's shorter layers on an RTX 5090. The host's speed decides it. step_s: what those fits leave over,
    not far from 0. Verification and rounds: assumed from the bundled run on a CPU; no public measurement was found.
    """
    return Device(
        name=name,
        bandwidth_bytes_s=READ_SHARE.times(bandwidth_gb_s * 1e9),
        layer_s=Band(0.3e-3, 0.6e-3, 0.95e-3),
        step_s=Band(0.0, 0.5e-3, 1.5e-3),
        overlap=True,
        verify_jump=Band(0.0, 0.02, 0.1),
        verify_slope=Band(0.0, 0.01, 0.03),
        round_s=Band(0.5e-3, 1.5e-3, 4e-3),
    )


def engine(name: str, bandwidth_gb_s: float) -> Device:
    """A CUDA GPU in an engine that captures graphs, such as vLLM: 0.13 ms per layer on an A100 (vLLM 0.6.3, Qwen2.5; Qwen's speed benchmark)."""
    return Device(
        name=name,
        bandwidth_bytes_s=READ_SHARE.times(bandwidth_gb_s * 1e9),
        layer_s=Band(0.05e-3, 0.11e-3, 0.16e-3),
        step_s=Band(0.0, 0.2e-3, 1e-3),
        overlap=False,
        verify_jump=Band(0.0, 0.02, 0.1),
        verify_slope=Band(0.0, 0.01, 0.03),
        round_s=Band(0.0, 0.5e-3, 2e-3),
    )


CPU = Device(
    name="CPU, one thread",
    bandwidth_bytes_s=Band(9e9, 14e9, 18e9),
    layer_s=Band(0.3e-3, 0.45e-3, 0.9e-3),
    step_s=Band(0.1e-3, 0.6e-3, 1.2e-3),
    overlap=False,
    verify_jump=Band(0.1, 0.4, 1.0),
    verify_slope=Band(0.02, 0.05, 0.11),
    round_s=Band(0.3e-3, 0.8e-3, 1.5e-3),
)
"""Transformers in float32 on one thread of an AMD EPYC: measured with eight Llama shapes of 1-214 million parameters and the bundled run.
Five tokens in one pass took 1.3-2.1 plain steps there, 21 tokens 1.6-3.2."""
