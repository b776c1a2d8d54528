"""Settings, read from environment variables that start with DRAFTGAUGE_; the README lists them all."""

import os
from pathlib import Path

from platformdirs import user_data_path
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Every setting with its default."""

    model_config = SettingsConfigDict(env_prefix="DRAFTGAUGE_", frozen=True)

    data: Path = Field(default_factory=lambda: user_data_path("draftgauge", appauthor=False), description="folder of the store and of worker logs")
    model_roots: list[Path] = Field(default=[], description="folders whose sub-folders hold models in the Hugging Face layout, as a JSON list")
    threads: int = Field(default=max(1, (os.cpu_count() or 2) - 1), ge=1, description="torch threads of the worker on a CPU")
    queue_length: int = Field(default=20, ge=1, description="jobs that may wait; one more is refused with a sentence")
