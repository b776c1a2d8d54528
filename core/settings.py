"""Settings, read from environment variables that start with DRAFTGAUGE_; the README lists them all."""

import os
from pathlib import Path

from platformdirs import user_data_path
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from core.errors import InvalidInput

PREFIX = "DRAFTGAUGE_"


class Settings(BaseSettings):
    """Every setting with its default. Relative folders are made absolute, because workers run in another folder."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    data: Path = Field(default_factory=lambda: user_data_path("draftgauge", appauthor=False), description="folder of the store and of worker logs")
    model_roots: list[Path] = Field(default=[], description="folders whose sub-folders hold models in the Hugging Face layout, as a JSON list")
    threads: int = Field(default=max(1, (os.cpu_count() or 2) - 1), ge=1, description="torch threads of the worker on a CPU")
    queue_length: int = Field(default=20, ge=1, description="jobs that may wait; one more is refused with a sentence")
    read_only: bool = Field(default=False, description="true: runs are only shown; nothing is measured, cancelled, edited, deleted or imported")

    @field_validator("data")
    @classmethod
    def _absolute(cls, folder: Path) -> Path:
        return folder.absolute()

    @field_validator("model_roots")
    @classmethod
    def _all_absolute(cls, folders: list[Path]) -> list[Path]:
        return [folder.absolute() for folder in folders]


def load() -> Settings:
    """The settings of this environment. Raises InvalidInput naming the variable, its value, and what it must be."""
    try:
        return Settings()
    except ValidationError as error:
        name, why = str(error.errors()[0]["loc"][0]), error.errors()[0]["msg"]
        raise InvalidInput(_sentence(name, why)) from error
    except SettingsError as error:  # no JSON where a list belongs
        raise InvalidInput(_sentence("model_roots", 'Write a JSON list, such as ["/models"]')) from error


def _sentence(name: str, why: str) -> str:
    variable = PREFIX + name.upper()
    wanted = Settings.model_fields[name].description
    return f"{variable} is {os.environ.get(variable, '')!r}, which cannot be used ({why}). It sets: {wanted}. Correct or unset it, then start again."
