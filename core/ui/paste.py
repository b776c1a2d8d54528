"""Alpha from what another tool printed: paste its output, see alpha, put it on the what-if slider."""

import streamlit as st

from core import translate
from core.errors import InvalidInput
from core.translate import Reading
from core.ui import look

LONGEST = 200_000
KNOWN = "vLLM's log line (SpecDecoding metrics), vLLM's /metrics page, or llama.cpp's line with accepted / generated."


def read(text: str, gamma: int) -> Reading:
    """Alpha from the output of a tool that was set to draft `gamma` tokens. Raises InvalidInput when it is none of the known ones."""
    if "vllm:spec_decode" in text:
        return translate.alpha_from_vllm_counters(text, gamma=gamma)
    if "Per-position acceptance rate" in text:
        return translate.alpha_from_vllm_log(text, gamma=gamma)
    if "generated" in text:
        return translate.alpha_from_llama_cpp(text, gamma)
    raise InvalidInput(f"'{text[:80]}' is not the output of a tool known here. Paste {KNOWN}")


def alpha_from_elsewhere() -> None:
    """The folded input; alpha goes to the slider on a click, never by itself."""
    with st.expander("Alpha from another tool's output"):
        text = st.text_area("Output of vLLM or llama.cpp", key="pasted_output", height=100, max_chars=LONGEST, placeholder=KNOWN)
        gamma = st.number_input("Draft length it was set to", min_value=1, max_value=64, value=5, step=1, key="pasted_gamma", width=240)
        if not text.strip():
            return
        try:
            found = read(text, gamma)
        except InvalidInput as error:
            st.error(look.plain(str(error)), icon=":material/error:")
            return
        st.markdown(f"**alpha {found.alpha:.2f}** :small[:gray[{look.plain(found.how)}]]")
        st.button("Use it as what-if", icon=":material/tune:", on_click=_use, args=(found.alpha,))


def _use(alpha: float) -> None:
    st.session_state["alpha"] = round(alpha, 2)
