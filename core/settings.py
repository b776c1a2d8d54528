"""Settings, read from environment variables that start with DRAFTGAUGE_; the README lists them all."""

import os
import re
from pathlib import Path

from platformdirs import user_data_path
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from core.errors import InvalidInput

PREFIX = "DRAFTGAUGE_"
LISTS = {"model_roots": '["/models"]', "users": '["ann@example.com", "@example.org"]', "embed_in": '["https://wiki.example.com"]'}
"""The settings that are lists, with an example of each."""
ADDRESS = re.compile(r"[^@\s]*@[^@\s]+")
SITE = re.compile(r"https?://(\*\.)?[A-Za-z0-9.-]+(:\d{1,5})?")


def _cores() -> int:
    """The cores that this process may use: where a container or a service was given some, these. A share of their time is not seen."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


class Settings(BaseSettings):
    """Every setting with its default. Relative folders are made absolute, because workers run in another folder."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True)

    data: Path = Field(default_factory=lambda: user_data_path("draftgauge", appauthor=False), description="folder of the store and of worker logs")
    model_roots: list[Path] = Field(default=[], description="folders whose sub-folders hold models in the Hugging Face layout, as a JSON list")
    threads: int = Field(default=max(1, _cores() - 1), ge=1, description="torch threads of the worker on a CPU")
    queue_length: int = Field(default=20, ge=1, description="jobs that may wait; one more is refused with a sentence")
    queue_each: int = Field(default=10, ge=1, description="jobs of one person that may wait; one more is refused with a sentence")
    read_only: bool = Field(default=False, description="true: runs are only shown; nothing is measured, cancelled, edited, deleted or imported")
    users: list[str] = Field(default=[], description="who may sign in, as a JSON list of e-mail addresses and @domains; empty for everybody")
    private: bool = Field(default=False, description="true: each person sees and changes their own runs only; needs a login")
    embed_in: list[str] = Field(default=[], description="sites that may show this one in a frame, as a JSON list")

    @field_validator("data")
    @classmethod
    def _absolute(cls, folder: Path) -> Path:
        return folder.absolute()

    @field_validator("model_roots")
    @classmethod
    def _all_absolute(cls, folders: list[Path]) -> list[Path]:
        return [folder.absolute() for folder in folders]

    @field_validator("users")
    @classmethod
    def _addresses(cls, people: list[str]) -> list[str]:
        wrong = [name for name in people if not ADDRESS.fullmatch(name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is neither an e-mail address nor @ and a domain")
        return people

    @field_validator("embed_in")
    @classmethod
    def _sites(cls, sites: list[str]) -> list[str]:
        wrong = [site for site in sites if not SITE.fullmatch(site)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no site such as https://wiki.example.com")
        return sites


def load() -> Settings:
    """The settings of this environment. Raises InvalidInput naming the variable, its value, and what it must be."""
    try:
        return Settings()
    except ValidationError as error:
        name, why = str(error.errors()[0]["loc"][0]), error.errors()[0]["msg"]
        raise InvalidInput(_sentence(name, why)) from error
    except SettingsError as error:  # no JSON where a list belongs; the library names the field in its words alone
        name = next(name for name in LISTS if f'"{name}"' in str(error))
        raise InvalidInput(_sentence(name, f"Write a JSON list, such as {LISTS[name]}")) from error


def _sentence(name: str, why: str) -> str:
    variable = PREFIX + name.upper()
    wanted = Settings.model_fields[name].description
    return f"{variable} is {os.environ.get(variable, '')!r}, which cannot be used ({why}). It sets: {wanted}. Correct or unset it, then start again."
