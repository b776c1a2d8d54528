"""Nothing in this program can run what it reads: no pickle, no `eval`, no code of a model, no cache that is a pickle on the disk."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted([ROOT / "app.py", *(ROOT / "core").rglob("*.py"), *(ROOT / "pages").glob("*.py")])
FOREIGN = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle", "yaml"}
LOADERS = {"from_pretrained", "from_config"}
RUNS = {"eval", "exec", "compile", "__import__"}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            yield str(file.relative_to(ROOT)), node


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Every call with the last name of what is called."""
    for file, node in nodes():
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
            yield file, node, name


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((given.value for given in call.keywords if given.arg == name), None)


def passed_on(file: str, call: ast.Call) -> list[str]:
    """What a call gets by `**`; a variable `how` is what its file fills it from first."""
    named = [ast.unparse(given.value) for given in call.keywords if given.arg is None]
    first = re.search(r"how = dict\((.+)\)", (ROOT / file).read_text(encoding="utf-8"))
    return [first[1] if name == "how" and first else name for name in named]


def test_no_module_that_unpickles_is_imported():
    found = {
        f"{file}: {name}"
        for file, node in nodes()
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.partition(".")[0] in FOREIGN
    }
    assert found == set()


def test_nothing_evaluates_text():
    found = [f"{file}:{call.lineno}" for file, call, name in calls() if name in RUNS and isinstance(call.func, ast.Name)]
    assert found == []


def test_numpy_and_torch_unpickle_nothing():
    for file, call, _name in calls():
        owner = ast.unparse(call.func)
        assert owner not in ("torch.load", "pandas.read_pickle", "pd.read_pickle"), file
        if owner == "np.load":
            given = keyword(call, "allow_pickle")
            assert isinstance(given, ast.Constant), file
            assert given.value is False, file


def test_every_loading_refuses_the_model_s_own_code():
    seen = 0
    for file, call, name in calls():
        if name not in LOADERS or not file.startswith(("core/worker/", "core/plan/")):
            continue
        seen += 1
        given = keyword(call, "trust_remote_code")
        if given is not None:
            assert isinstance(given, ast.Constant), file
            assert given.value is False, file
        elif name == "from_pretrained":
            assert any(each.endswith("loader") for each in passed_on(file, call)), f"{file}:{call.lineno} does not say trust_remote_code=False"
    assert seen >= 4


def test_weights_are_loaded_as_safetensors_only():
    for file, call, _name in calls():
        if re.search(r"AutoModel\w*\)?\.from_pretrained", ast.unparse(call.func)) and file.startswith("core/worker/"):
            assert any(each.endswith("weights_loader") for each in passed_on(file, call)), f"{file}:{call.lineno}"


def test_no_cache_of_streamlit_is_kept_on_the_disk():
    """`st.cache_data` pickles what it keeps, in memory; with `persist` it would read pickles back from files."""
    found = [f"{file}:{call.lineno}" for file, call, _name in calls() if keyword(call, "persist") is not None]
    assert found == []
