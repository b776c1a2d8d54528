"""`python -m core.plan.gguf_config FILE`: what `core.plan.describe_gguf` starts; not meant for people.

Prints one line of JSON: the config as Transformers maps it, bytes by tensor type, parameters (elements of all tensors but the
tables of rotary frequencies), quantisation (the type that holds most bytes) and licence; or {"error": sentence}.
"""

import json
import logging
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

NOT_INSTALLED = "GGUF files are read with the package gguf, which is not installed. Install it: pip install gguf."


def main() -> None:
    """Read the file named by the only argument."""
    logging.disable()
    voice = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not the answer
    answer = json.dumps(read(Path(sys.argv[1])))
    os.write(voice, answer.encode() + b"\n")


def read(file: Path) -> dict[str, Any]:
    """The answer for one file. Raises whatever the readers raise for a damaged one."""
    try:
        import gguf
    except ModuleNotFoundError:
        return {"error": NOT_INSTALLED}
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    reader = gguf.GGUFReader(file)
    gguf.GGUFReader = lambda _: reader  # Transformers would read the whole head again: 4 to 9 s
    sizes: defaultdict[str, int] = defaultdict(int)
    for tensor in reader.tensors:
        sizes[tensor.tensor_type.name] += int(tensor.n_bytes)
    licence = reader.get_field("general.license")
    answer = {
        "config": {},
        "bytes": dict(sizes),
        "parameters": sum(int(tensor.n_elements) for tensor in reader.tensors if not tensor.name.startswith("rope_")),
        "quantisation": max(sizes, key=lambda kind: sizes[kind], default=""),
        "licence": str(licence.contents())[:80] if licence else "",
    }
    try:
        return answer | {"config": load_gguf_checkpoint(str(file))["config"]}
    except ValueError:  # the library's word for an architecture that it does not map
        return answer | {"refusal": f"Transformers 5.24 cannot read the architecture of {file.name}. Choose another model, or its safetensors."}


if __name__ == "__main__":
    main()
