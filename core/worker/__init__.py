"""The worker: one process per device that loads models, runs and times them. Started by `core.child`, imported by nobody."""
