"""Weights by their headers: bytes as stored, elements as the model has them, and None where nobody can tell.

Each packed layout is that of one square layer of 128 x 128, as the named method stores it; the public reports of wrong counts are
huggingface_hub issue 4221, hub-docs issue 2704, huggingface.js pull 1770 and llmfit issue 1045.
"""

from typing import Any

import pytest

from core.headers import Tensor
from core.weights import weigh

BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1, "I64": 8, "F4": 0.5, "BOOL": 1, "U16": 2}
N = 128 * 128
TWO_WIDTHS = {"a": {"weights": {"num_bits": 4}}, "b": {"weights": {"num_bits": 8}}}


def tensor(name: str, dtype: str, *shape: int) -> Tensor:
    count = 1
    for size in shape:
        count *= size
    return Tensor(name, dtype, shape, int(count * BYTES[dtype]))


def quantised(method: str, **more: Any) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": method, **more}}


def test_plain_weights_are_summed_by_dtype() -> None:
    found = weigh([tensor("a.weight", "BF16", 10, 4), tensor("b.weight", "F32", 3), tensor("c", "BF16")], {})
    assert (found.bytes, found.parameters, found.bytes_by_dtype, found.quantisation) == (94, 44, {"BF16": 82, "F32": 12}, "")


def test_buffers_are_bytes_but_no_parameters() -> None:
    """GPT-2's file holds causal masks: 137,022,720 elements where the model has 124,439,808."""
    found = weigh(
        [
            tensor("h.0.attn.bias", "F32", 1, 1, 1024, 1024),
            tensor("h.0.attn.c_attn.bias", "F32", 2304),
            tensor("gpt_neox.layers.0.attention.masked_bias", "F32"),
            tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", 32),
            tensor("embeddings.position_ids", "I64", 1, 512),
        ],
        {},
    )
    assert (found.bytes, found.parameters) == (1024 * 1024 * 4 + 2304 * 4 + 4 + 128 + 4096, 2304)


@pytest.mark.parametrize(
    ("config", "tensors", "label"),
    [
        (
            quantised("gptq", bits=4),
            [("q.qweight", "I32", 16, 128), ("q.qzeros", "I32", 1, 16), ("q.scales", "F16", 1, 128), ("q.g_idx", "I32", 128)],
            "gptq 4 bit",
        ),
        (quantised("gptq", bits=3), [("q.qweight", "I32", 12, 128), ("q.scales", "F16", 1, 128)], "gptq 3 bit"),
        (quantised("gptq", bits=8), [("q.qweight", "I32", 32, 128)], "gptq 8 bit"),
        (quantised("awq", bits=4), [("q.qweight", "I32", 128, 16), ("q.qzeros", "I32", 1, 16), ("q.scales", "F16", 1, 128)], "awq 4 bit"),
        (
            quantised("compressed-tensors", config_groups={"group_0": {"weights": {"num_bits": 4}}}),
            [("q.weight_packed", "I32", 128, 16), ("q.weight_shape", "I64", 2), ("q.weight_scale", "BF16", 128, 1)],
            "compressed-tensors 4 bit",
        ),
        (
            quantised("compressed-tensors", config_groups={"group_0": {"weights": {"num_bits": 8}}}),
            [("q.weight", "F8_E4M3", 128, 128), ("q.weight_scale", "BF16", 128, 1), ("q.input_scale", "BF16", 1)],
            "compressed-tensors 8 bit",
        ),
        (
            quantised("compressed-tensors", config_groups={"group_0": {"weights": {"num_bits": 4}}}),
            [("q.weight_packed", "U8", 128, 64), ("q.weight_scale", "F8_E4M3", 128, 8), ("q.weight_global_scale", "F32", 1)],
            "compressed-tensors 4 bit",
        ),
        (
            quantised("bitsandbytes", load_in_4bit=True),
            [
                *[("q.weight", "U8", N // 2, 1), ("q.weight.absmax", "U8", 256), ("q.weight.quant_map", "F32", 16)],
                *[("q.weight.nested_absmax", "F32", 1), ("q.weight.nested_quant_map", "F32", 256)],
                ("q.weight.quant_state.bitsandbytes__nf4", "U8", 90),
            ],
            "bitsandbytes 4 bit",
        ),
        (
            quantised("bitsandbytes", load_in_8bit=True),
            [("q.weight", "I8", 128, 128), ("q.SCB", "F32", 128), ("q.weight_format", "U8")],
            "bitsandbytes 8 bit",
        ),
        (quantised("mxfp4"), [("e.gate_up_proj_blocks", "U8", 2, 64, 4, 16), ("e.gate_up_proj_scales", "U8", 2, 64, 4)], "mxfp4 4 bit"),
        (quantised("fp8"), [("q.weight", "F8_E4M3", 128, 128), ("q.weight_scale_inv", "F32", 1, 1)], "fp8 8 bit"),
        (
            quantised("modelopt", quant_algo="NVFP4"),
            [("q.weight", "U8", 128, 64), ("q.weight_scale", "F8_E4M3", 128, 8), ("q.weight_scale_2", "F32"), ("q.input_scale", "F32")],
            "modelopt 4 bit",
        ),
        (
            {"quantization": {"bits": 4, "group_size": 64}},
            [("q.weight", "U32", 128, 16), ("q.scales", "BF16", 128, 2), ("q.biases", "BF16", 128, 2)],
            "mlx 4 bit",
        ),
        ({"quantization": {"bits": 4, "q": {"bits": 8}}}, [("q.weight", "U32", 128, 32), ("q.scales", "BF16", 128, 2)], "mlx 4 bit"),
    ],
)
def test_packed_weights_count_as_the_model_has_them(config: dict[str, Any], tensors: list[tuple[Any, ...]], label: str) -> None:
    """Beside each packed layer an ordinary norm, which is counted as it is."""
    rows = [tensor(*row) for row in [*tensors, ("norm.weight", "BF16", 128)]]
    found = weigh(rows, config)
    assert found.parameters == N + 128
    assert found.bytes == sum(row.bytes for row in rows), "bytes are those on the disk, never multiplied"
    assert found.quantisation == label


@pytest.mark.parametrize(
    ("config", "row"),
    [
        (quantised("gptq"), ("q.qweight", "I32", 16, 128)),
        (quantised("aqlm"), ("q.codes", "I8", 128, 16)),
        (quantised("bitnet"), ("q.weight", "U8", 32, 128)),
        (
            quantised("compressed-tensors", config_groups={"a": {"weights": {"num_bits": 4}}, "b": {"weights": {"num_bits": 8}}}),
            ("q.weight_packed", "I32", 8, 8),
        ),
        ({"quantization_config": {"bits": 4}}, ("q.qweight", "I32", 16, 128)),
        ({"quantization": {"bits": "4"}}, ("q.weight", "U32", 16, 128)),
    ],
)
def test_an_unknown_packing_has_bytes_but_no_count(config: dict[str, Any], row: tuple[Any, ...]) -> None:
    found = weigh([tensor(*row), tensor("norm.weight", "BF16", 128)], config)
    assert found.parameters is None
    assert found.bytes == tensor(*row).bytes + 256


@pytest.mark.parametrize("config", [{"quantization_config": None}, {"quantization_config": "x"}, {"quantization": []}, {"text_config": 3}])
def test_a_malformed_quantisation_is_none(config: dict[str, Any]) -> None:
    assert weigh([tensor("w", "BF16", 2, 2)], config).parameters == 4
