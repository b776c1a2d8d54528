"""A model's folder reads nothing else of this machine and runs nothing: links, pipes, pickles, code and adapters, each of them really there."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoTokenizer

from core import demo, model_folder, pair
from core.errors import ModelError
from core.measured import Dtype
from core.model_folder import check_enclosed, check_harmless, kernel
from core.plan.prompt_tokens import prompt_preview
from core.runs import ModelRef, Prompt, RunSpec
from core.settings import Settings
from core.worker.models import Garage
from tests.supplies import model_folder as small_folder

INDEX = "model.safetensors.index.json"


@pytest.fixture
def root(settings: Settings) -> Path:
    settings.model_roots[0].mkdir()
    return settings.model_roots[0]


@pytest.fixture
def folder(root: Path) -> Path:
    return Path(small_folder(root / "mine").path)


@pytest.fixture
def whole(root: Path) -> Path:
    """The demo's draft, in links to its files, so that a test can replace one of them."""
    made = root / "whole"
    made.mkdir()
    for file in Path(demo.DRAFT.path).iterdir():
        os.link(file, made / file.name) if file.stat().st_dev == made.stat().st_dev else (made / file.name).write_bytes(file.read_bytes())
    return made


def ref(folder: Path) -> ModelRef:
    return ModelRef(source="folder", name=folder.name, path=str(folder))


def spec(folder: Path, dtype: Dtype = "float32") -> RunSpec:
    return RunSpec(target=ref(folder), draft=ref(folder), prompts=(Prompt(text="x"),), dtype=dtype)


def rewrite(file: Path, **changes: object) -> None:
    """Change the object in a JSON file, whose other names are not changed with it."""
    content = json.loads(file.read_bytes()) | changes
    file.unlink()
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "tokenizer.json", "other.tiktoken", "additional_chat_templates/a.jinja", "model-00001-of-00002.safetensors"],
)
def test_a_link_out_of_the_roots_is_refused_wherever_it_is(settings: Settings, folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("{}")
    link = folder / name
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(secret)
    with pytest.raises(ModelError, match="is a link that leads out of the configured roots"):
        pair.check(ref(folder), settings)
    with pytest.raises(ModelError, match="is a link that leads out of the configured roots"):
        count_one(ref(folder), settings)


def test_a_linked_folder_is_refused_and_a_link_inside_the_root_is_not(settings: Settings, root: Path, folder: Path, tmp_path: Path) -> None:
    (root / "shared.json").write_text("{}")
    (folder / "tokenizer.json").symlink_to(root / "shared.json")
    pair.check(ref(folder), settings)
    (folder / "onnx").symlink_to(tmp_path)
    with pytest.raises(ModelError, match="onnx is a link that leads out"):
        pair.check(ref(folder), settings)


def test_a_link_that_goes_round_or_nowhere_is_a_sentence(settings: Settings, folder: Path) -> None:
    (folder / "gone.json").symlink_to(folder / "nothing")
    with pytest.raises(ModelError, match=r"gone\.json cannot be read \(No such file"):
        check_enclosed(folder, settings)


def test_a_pipe_is_not_waited_for(settings: Settings, folder: Path) -> None:
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(ModelError, match=r"config\.json is neither a file nor a folder"):
        pair.check(ref(folder), settings)
    os.mkfifo(folder.parent / "x.gguf")
    with pytest.raises(ModelError, match=r"x\.gguf is neither a file nor a folder"):
        pair.check(ModelRef(source="gguf", name="x.gguf", path=str(folder.parent / "x.gguf")), settings)


def test_a_folder_of_too_many_files_is_not_walked_to_its_end(settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "MOST_ENTRIES", 3)
    (folder / "1").touch()
    check_enclosed(folder, settings)
    (folder / "2").touch()
    with pytest.raises(ModelError, match="holds more than 3 files"):
        check_enclosed(folder, settings)


def test_a_huge_config_is_not_read_to_its_end(settings: Settings, folder: Path) -> None:
    os.truncate(folder / "config.json", 10**12)
    with pytest.raises(ModelError, match="more than 1 MB, which no config has"):
        pair.check(ref(folder), settings)


class Trap:
    """When it is unpickled it makes a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self._file),)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
def test_pickled_weights_are_never_read(settings: Settings, whole: Path, tmp_path: Path, name: str) -> None:
    """Also not under a name that looks like safetensors, nor by the library when it is asked directly."""
    sprung = tmp_path / "sprung"
    (whole / "model.safetensors").unlink()
    (whole / name).write_bytes(pickle.dumps(Trap(sprung)))
    says = "has pickled weights only, which can run code" if name.endswith("bin") else "cut off or not a safetensors file"
    with pytest.raises(ModelError, match=says):
        pair.check(ref(whole), settings)
    with pytest.raises(ModelError, match="could not be loaded"):
        Garage().get(spec(whole))
    assert not sprung.exists()
    pickle.loads((whole / name).read_bytes())  # what was not done above
    assert sprung.exists()


@pytest.mark.parametrize(
    ("named", "says"),
    [("../secret.safetensors", "no weights file beside it"), ("/etc/passwd", "no weights file beside it"), ("pytorch_model.bin", "no weights file")],
)
def test_an_index_names_nothing_but_safetensors_beside_it(whole: Path, named: str, says: str) -> None:
    (whole / "model.safetensors").unlink()
    (whole / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {"a": named}}))
    (whole / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ModelError, match=says):
        Garage().get(spec(whole))


CODE = "import pathlib\npathlib.Path({!r}).mkdir(parents=True)\nclass X:\n    pass\n"


@pytest.mark.parametrize("kind", ["llama", "mystery"])
def test_code_in_a_folder_is_never_run(whole: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known type is built by the library's own class; an unknown one is refused."""
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    sprung = tmp_path / "sprung"
    for name in ("trap", "configuration_trap", "modeling_trap", "tokenization_trap", "custom_generate/generate"):
        (whole / name).parent.mkdir(exist_ok=True)
        (whole / f"{name}.py").write_text(CODE.format(str(sprung)))
    own = {"AutoConfig": "trap.X", "AutoModelForCausalLM": "trap.X", "AutoTokenizer": ["trap.X", "trap.X"]}
    known = json.loads((whole / "config.json").read_bytes())["model_type"]
    rewrite(whole / "config.json", auto_map=own, model_type=known if kind == "llama" else kind)
    rewrite(whole / "tokenizer_config.json", auto_map=own)
    rewrite(whole / "generation_config.json", custom_generate="custom_generate") if (whole / "generation_config.json").exists() else None
    if kind == "llama":
        loaded = Garage().get(spec(whole))
        assert type(loaded.target).__module__.startswith("transformers.models.")
    else:
        with pytest.raises(ModelError, match="could not be loaded"):
            Garage().get(spec(whole))
    assert not sprung.exists()
    exec(compile((whole / "trap.py").read_text(), "trap", "exec"), {})  # what was not done above
    assert sprung.exists()


@pytest.mark.parametrize(
    "config",
    [
        {"attn_implementation": "evil/attention"},
        {"_attn_implementation": "evil/attention@main:function"},
        {"text_config": {"attn_implementation": {"": "sdpa", "vision": "evil/attention"}}},
        {"experts_implementation": "evil/experts"},
        {"parts": [{"attn_implementation": "evil/attention"}]},
    ],
)
def test_a_config_that_asks_for_a_kernel_is_refused(folder: Path, config: dict[str, object]) -> None:
    assert kernel(config).startswith("evil/")
    rewrite(folder / "config.json", **config)
    with pytest.raises(ModelError, match="asks for code from the Hub"):
        check_harmless(folder)


@pytest.mark.parametrize(
    "config", [{}, {"attn_implementation": "sdpa"}, {"_attn_implementation": {"": "eager"}}, {"_name_or_path": "a/b", "x": ["a/b"]}]
)
def test_other_configs_are_not(folder: Path, config: dict[str, object]) -> None:
    assert kernel(config) == ""
    rewrite(folder / "config.json", **config)
    check_harmless(folder)


def test_other_weights_and_adapters_are_refused(folder: Path) -> None:
    rewrite(folder / "config.json", transformers_weights="adapter_model.bin")
    with pytest.raises(ModelError, match="names weights of its own"):
        check_harmless(folder)
    rewrite(folder / "config.json", transformers_weights=None)
    check_harmless(folder)
    (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "/somewhere/else"}')
    with pytest.raises(ModelError, match="holds an adapter"):
        check_harmless(folder)


@pytest.mark.parametrize("named", ["../other/tokenizer.4.0.0.json", "tokenizer.4.0.0.json/../../other/any"])
def test_a_tokenizer_is_not_taken_from_elsewhere(settings: Settings, whole: Path, named: str) -> None:
    outside = whole.parent / "other" / Path(named).name
    outside.parent.mkdir()
    (whole / "tokenizer.4.0.0.json").mkdir()
    known = json.loads((whole / "tokenizer.json").read_bytes())
    added = {**known["added_tokens"][0], "id": 4096, "content": "from elsewhere"}
    outside.write_text(json.dumps(known | {"added_tokens": [*known["added_tokens"], added]}))
    pair.check(ref(whole), settings)
    rewrite(whole / "tokenizer_config.json", fast_tokenizer_files=[named])
    assert "from elsewhere" in AutoTokenizer.from_pretrained(whole).get_vocab()  # what is not done below
    refused_everywhere(whole, settings, r"tokenizer_config\.json names other files to read instead \(fast_tokenizer_files\)")


def test_no_config_is_read_in_place_of_the_one_that_was_looked_at(settings: Settings, whole: Path) -> None:
    (whole / "config.4.0.0.json").write_text(json.dumps(json.loads((whole / "config.json").read_bytes()) | {"vocab_size": 10**9}))
    pair.check(ref(whole), settings)
    rewrite(whole / "config.json", configuration_files=["config.4.0.0.json"])
    assert AutoConfig.from_pretrained(whole).vocab_size == 10**9  # what is not done below
    refused_everywhere(whole, settings, r"/config\.json names other files to read instead \(configuration_files\)")


def count_one(model: ModelRef, settings: Settings) -> object:
    """What the page Measure asks for as somebody types."""
    return prompt_preview({"model": f"folder:{model.name}", "prompt": {"text": "x"}}, settings)


def refused_everywhere(folder: Path, settings: Settings, says: str) -> None:
    """On the page, where a worker reads it, and where its tokens are counted."""
    for look in (pair.check, count_one, lambda model, _settings: Garage().get(spec(Path(model.path)))):
        with pytest.raises(ModelError, match=says):
            look(ref(folder), settings)


def test_a_worker_looks_again_before_it_loads(settings: Settings, folder: Path, tmp_path: Path) -> None:
    """What the bench has checked may be another file by the time it is read."""
    asked = RunSpec(target=ref(folder), draft=ref(folder), prompts=(Prompt(text="x"),))
    for model in (asked.target, asked.draft):
        pair.check(model, settings)
    (tmp_path / "secret").write_text("{}")
    (folder / "tokenizer.json").symlink_to(tmp_path / "secret")
    code = (
        "import sys; from core.runs import RunSpec; from core.settings import Settings; from core.worker.process import _check_models;"
        "_check_models(RunSpec.model_validate_json(sys.argv[1]), Settings.model_validate_json(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, asked.model_dump_json(), settings.model_dump_json()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "is a link that leads out of the configured roots" in done.stderr
