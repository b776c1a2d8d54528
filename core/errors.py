"""One small family of errors. Each says what was wrong, with the value, and what to do.

The message is shown to a person as it is: one or two sentences, no traceback, no code.
"""


class DraftgaugeError(Exception):
    """Base of every error that a page shows as a sentence."""


class InvalidInput(DraftgaugeError):
    """A value that a person typed, pasted or chose cannot be used."""


class ModelError(DraftgaugeError):
    """A model folder is missing, damaged, or not a model that can be measured."""


class ConfigError(ModelError):
    """A config.json that Transformers cannot turn into a model, whatever its weights are."""


class DeviceError(DraftgaugeError):
    """The device does not exist, is taken, or ran out of memory."""


class StoreError(DraftgaugeError):
    """The data folder cannot be used: locked, full, foreign, damaged, or of a newer version."""


class StoreBusy(StoreError):
    """Another program holds the store for the moment; it is worth another try."""


class QueueFull(DraftgaugeError):
    """The bench accepts no more jobs for now."""


class NotMeasured(DraftgaugeError):
    """A run lacks what an answer needs: it was stopped early, or recorded without it."""
