"""The app for a server that stays, started with `streamlit run asgi.py`: see `core.ui.server` for what it adds to `app.py`."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from starlette.routing import Route

from core.ui import server
from core.ui.desk import settings
from core.ui.gate import Gate

app = st.App(
    Path(__file__).with_name("app.py"),
    routes=[Route("/ready", server.ready)],
    middleware=[
        Middleware(server.SecurityHeaders, embed_in=settings().embed_in),
        Middleware(server.OwnPages),
        Middleware(Gate, users=settings().users),
    ],
    lifespan=server.lifespan,
)
