"""The router; nothing else."""

from core.ui.frame import route

route()
