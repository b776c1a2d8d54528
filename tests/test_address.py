"""Addresses of models: the way there and back, and that nothing outside the roots can be named."""

import string
from pathlib import Path

import pytest
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from core import demo
from core.address import address, inside, is_hub_id, resolve
from core.errors import InvalidInput
from core.pair import available
from core.runs import ModelRef
from core.settings import Settings
from tests.supplies import model_folder


@pytest.fixture
def root(settings: Settings, tmp_path: Path) -> Path:
    """A root with folders and GGUF files, links out of it, and secrets beside it."""
    root = settings.model_roots[0]
    for name in ("plain", "né 1", "a b"):
        model_folder(root / name)
    model_folder(tmp_path / "secret")
    (tmp_path / "secret.gguf").write_bytes(b"GGUF")
    for file in (root / "top.gguf", root / "plain" / "in.gguf"):
        file.write_bytes(b"GGUF")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "out.gguf").symlink_to(tmp_path / "secret.gguf")
    (root / "up").symlink_to(tmp_path)
    (root / "deep").symlink_to(root / "plain")
    return root


def hub(name: str, revision: str = "") -> ModelRef:
    return ModelRef(source="hub", name=name, path=name, revision=revision)


def test_every_model_on_offer_has_an_address_that_leads_back(settings: Settings, root: Path) -> None:
    offered = available(settings)
    assert [address(ref) for ref in offered] == [
        *("demo:target", "demo:draft", "folder:a b", "folder:deep", "folder:né 1", "folder:plain"),
        *("gguf:deep/in.gguf", "gguf:plain/in.gguf", "gguf:top.gguf"),
    ]
    assert [resolve(address(ref), settings) for ref in offered] == offered


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("Qwen/Qwen3-0.6B", hub("Qwen/Qwen3-0.6B")),
        (" gpt2 ", hub("gpt2")),
        ("a/b@main", hub("a/b", "main")),
        ("a/b@refs/pr/1", hub("a/b", "refs/pr/1")),
        ("https://huggingface.co/Qwen/Qwen3-0.6B", hub("Qwen/Qwen3-0.6B")),
        ("http://www.huggingface.co/Qwen/Qwen3-0.6B/", hub("Qwen/Qwen3-0.6B")),
        ("huggingface.co/Qwen/Qwen3-0.6B?library=x#y", hub("Qwen/Qwen3-0.6B")),
        ("https://hf.co/gpt2", hub("gpt2")),
        ("https://huggingface.co/a/b/tree/refs/pr/1", hub("a/b", "refs/pr/1")),
        ("https://huggingface.co/a/b/tree/main", hub("a/b", "main")),
        ("https://huggingface.co/a/b/blob/v1/config.json", hub("a/b", "v1")),
        ("https://huggingface.co/a/b/resolve/main/config.json", hub("a/b", "main")),
        ("https://huggingface.co/a/b/discussions", hub("a/b")),
        ("demo:target", demo.TARGET),
        ("demo:draft", demo.DRAFT),
    ],
)
def test_ids_and_pasted_links_are_read(settings: Settings, text: str, ref: ModelRef) -> None:
    assert resolve(text, settings) == ref


def test_links_to_a_hub_of_ones_own_are_read(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="is no Hub id"):
        resolve("https://hub.acme.example/a/b", settings)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.acme.example")
    assert resolve("https://hub.acme.example/a/b", settings) == hub("a/b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no model"),
        ("  ", "is no model"),
        ("a\x00b", "is no model"),
        ("x" * 401, r"'x{80}\.\.\.' is no model"),
        ("<script>alert(1)</script>", "is no Hub id. Write it as owner/name"),
        ("two words", "is no Hub id"),
        ("a/b/c", "is no Hub id"),
        ("../../etc/passwd", "is no Hub id"),
        ("/etc/passwd", "is no Hub id"),
        ("C:\\models", "is no Hub id"),
        ("é/b", "is no Hub id"),
        ("a--b", "is no Hub id"),
        ("a/b@", "is no revision of a/b"),
        ("a/b@../x", "is no revision of a/b"),
        ("a/b@a/../b", "is no revision of a/b"),
        ("a/b@<b>", "is no revision of a/b"),
        ("https://huggingface.co/datasets/a/b", "leads to a data set, not to a model"),
        ("https://huggingface.co/spaces/a/b", "leads to a Space, not to a model"),
        ("https://evil.example/a/b", "is no Hub id"),
        ("https://huggingface.co/../..", "is no Hub id"),
        ("https://huggingface.co/%2e%2e/%2e%2e", "is no Hub id"),
        ("demo:other", "There is no demo model 'other'"),
        ("folder:missing", "There is no model folder 'missing' below the configured roots"),
        ("folder:", "is no name below a configured root"),
        ("folder:.", "is no name below"),
        ("folder:..", "is no name below"),
        ("folder:../secret", "is no name below"),
        ("folder:plain/../plain", "is no name below"),
        ("folder:/etc", "is no name below"),
        ("folder:out", "There is no model folder 'out'"),
        ("folder:top.gguf", "There is no model folder"),
        ("gguf:out.gguf", "There is no GGUF file 'out.gguf'"),
        ("gguf:up/secret.gguf", "There is no GGUF file"),
        ("gguf:../secret.gguf", "is no name below|There is no GGUF file"),
        ("gguf:plain/config.json", "Its name must end in .gguf"),
        ("gguf:a/b/c.gguf", "is no name below"),
        ("gguf:plain", "Its name must end in .gguf"),
    ],
)
def test_what_names_no_model_gives_a_sentence(settings: Settings, root: Path, text: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        resolve(text, settings)


def test_a_name_below_two_roots_is_not_guessed(settings: Settings, root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    model_folder(other / "plain")
    both = settings.model_copy(update={"model_roots": [root, other]})
    with pytest.raises(InvalidInput, match=r"There is a model folder 'plain' below more than one configured root .* Rename one\."):
        resolve("folder:plain", both)
    assert resolve("folder:a b", both).path == str(root / "a b")


def test_a_demo_model_that_is_none_has_no_address() -> None:
    with pytest.raises(InvalidInput, match="There is no demo model in '/etc'"):
        address(ModelRef(source="demo", name="x", path="/etc"))


PIECES = [*string.ascii_letters, *"0123456789./\\@:-_~ <>&%", "\x00", "é", "\u202e", "plain", "out", "up", "secret", "..", "gguf"]
NASTY = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
STARTS = st.sampled_from(["", "folder:", "gguf:", "demo:", "https://huggingface.co/", "folder:out/", "gguf:up/"])
ANY = st.tuples(STARTS, NASTY | st.text(), st.sampled_from(["", ".gguf"]))


@given(parts=ANY)
@examples(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_address_escapes_the_roots_and_each_leads_back(settings: Settings, root: Path, parts: tuple[str, str, str]) -> None:
    try:
        ref = resolve("".join(parts), settings)
    except InvalidInput:
        return
    assert resolve(address(ref), settings) == ref
    if ref.source == "hub":
        validate_repo_id(ref.path)
        assert not Path(ref.path).is_absolute()
        assert ".." not in f"{ref.path}/{ref.revision}"
    elif ref.source != "demo":
        assert inside(Path(ref.path), settings)
        assert Path(ref.path).resolve().is_relative_to(root.resolve())


@given(text=st.text(alphabet="ab01-._/", max_size=20) | st.text(alphabet="a", min_size=90, max_size=100) | NASTY)
@examples(max_examples=400, deadline=None)
def test_every_id_taken_here_is_one_for_the_library(text: str) -> None:
    try:
        validate_repo_id(text)
        valid = True
    except HFValidationError:
        valid = False
    assert valid or not is_hub_id(text)


@given(owner=st.from_regex(r"[a-zA-Z0-9_]{1,20}", fullmatch=True), name=st.from_regex(r"[a-zA-Z0-9]{1,10}[-._]?[a-zA-Z0-9]{1,10}", fullmatch=True))
def test_ordinary_ids_are_taken(owner: str, name: str) -> None:
    validate_repo_id(f"{owner}/{name}")
    assert is_hub_id(f"{owner}/{name}")
