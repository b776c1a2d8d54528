"""Draftgauge's product code: everything that can be used and tested without Streamlit."""
