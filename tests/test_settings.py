"""Settings from the environment: folders are absolute, and what cannot be used is named."""

from pathlib import Path

import pytest

from core.errors import InvalidInput
from core.settings import load


def test_relative_folders_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker runs in another folder than the server and must find the same ones."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAFTGAUGE_DATA", "here")
    monkeypatch.setenv("DRAFTGAUGE_MODEL_ROOTS", '["models", "/absolute"]')
    settings = load()
    assert settings.data == tmp_path / "here"
    assert settings.model_roots == [tmp_path / "models", Path("/absolute")]


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("DRAFTGAUGE_THREADS", "0", "greater than or equal to 1"),
        ("DRAFTGAUGE_THREADS", "many", "integer"),
        ("DRAFTGAUGE_QUEUE_LENGTH", "-1", "jobs that may wait"),
        ("DRAFTGAUGE_MODEL_ROOTS", "/models", "JSON list"),
        ("DRAFTGAUGE_MODEL_ROOTS", '"/models"', "JSON list"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInput, match=says) as raised:
        load()
    assert f"{variable} is {value!r}" in str(raised.value)
    assert "unset it" in str(raised.value)
