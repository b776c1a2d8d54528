"""The router, which each session runs; and the server around it, which `streamlit run app.py` finds here: see `core.ui.server`."""

from pathlib import Path

import streamlit as st

if __name__ == "__main__":
    from core.ui.frame import route

    route()
else:
    from core.ui import server

    app = st.App(Path(__file__), **server.around())
