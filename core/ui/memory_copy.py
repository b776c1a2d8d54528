"""A button that copies a sentence to the clipboard; Streamlit has none of its own.

The sentence travels as data and never as HTML. A browser hands out the clipboard only to localhost and https:
elsewhere the button says to select the sentence by hand.
"""

from streamlit.components.v2 import component

HTML = """
<button type="button" id="copy">
  <svg viewBox="0 -960 960 960" aria-hidden="true"><path d="M360-240q-33 0-56.5-23.500T280-320v-480q0-33 23.500-56.5T360-880h360q33 0 56.5 23.500T800-800v480q0 33-23.500 56.5T720-240H360Zm0-80h360v-480H360v480ZM200-80q-33 0-56.5-23.500T120-160v-560h80v560h440v80H200Z"/></svg>
  <span id="words" aria-live="polite"></span>
</button>
"""  # noqa: E501 - the outline of an icon
CSS = """
button {
  display: inline-flex; align-items: center; gap: 0.5rem; min-height: 2.5rem; padding: 0.25rem 0.75rem; cursor: pointer;
  font: inherit; font-family: var(--st-font); font-size: 0.875rem; color: #FFFFFF; background: var(--st-primary-color);
  border: 1px solid var(--st-primary-color); border-radius: var(--st-button-radius);
}
button:hover { filter: brightness(1.12); }
button:focus-visible { outline: 2px solid var(--st-text-color); outline-offset: 2px; }
svg { width: 1.1rem; height: 1.1rem; fill: currentColor; }
"""
JS = """
export default function ({ data, parentElement }) {
  const words = parentElement.querySelector("#words");
  words.textContent = data.label;
  parentElement.querySelector("#copy").onclick = async () => {
    try {
      await navigator.clipboard.writeText(data.text);
      words.textContent = "Copied";
    } catch {
      words.textContent = "Select the sentence and copy it";
    }
    setTimeout(() => { words.textContent = data.label; }, 2500);
  };
}
"""
_button = component("draftgauge_copy", html=HTML, css=CSS, js=JS)


def button(text: str, label: str, key: str) -> None:
    """The page's primary button; it copies `text` as it is."""
    _button(data={"text": text, "label": label}, key=key, width="content", height="content")
