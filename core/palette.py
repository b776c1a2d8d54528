"""The colours, light and dark: one colour, one meaning.

Target indigo, draft and "faster" teal, "slower" orange, break-even red, formula grey. The theme in
`.streamlit/config.toml` uses the same values; figures take a `Palette`, so that one figure serves a
page and an exported picture alike. Text colours reach 4.5:1 on their background, lines 3:1.
"""

from dataclasses import dataclass

FONT = '"Source Sans", sans-serif'

# Places of the speedup colours between 0.5x (0) and 4x (1) on a log scale: 0.5, 0.71, 0.89, 1, 1.15, 1.74, 2.64, 4.
# Asymmetric on purpose: losses below 0.5x need no shades of their own.
DIVERGING_STOPS = (0.0, 1 / 6, 0.28, 1 / 3, 0.40, 0.60, 0.80, 1.0)


@dataclass(frozen=True)
class Palette:
    """Colours as CSS strings; `diverging` belongs to `DIVERGING_STOPS`, `steps` are four of one hue, the last the strongest.

    runs: of up to six runs beside each other, hues that stand for nothing else.
    """

    ink: str
    muted: str
    grid: str
    axis: str
    paper: str
    target: str
    target_soft: str
    target_tint: str
    draft: str
    draft_soft: str
    draft_tint: str
    rejected: str
    formula: str
    break_even: str
    danger_text: str
    band: str
    flat: str
    danger: str
    other: str
    free: str
    steps: tuple[str, ...]
    diverging: tuple[str, ...]
    runs: tuple[str, ...]


LIGHT = Palette(
    ink="#1C2230",
    muted="#5A6272",
    grid="#ECEEF3",
    axis="#C6CCD8",
    paper="#FFFFFF",
    target="#4350C2",
    target_soft="#A6ADEA",
    target_tint="#E6E8FA",
    draft="#0B8078",
    draft_soft="#84CBC4",
    draft_tint="#E0F2F0",
    rejected="#6F7787",
    formula="#7D8595",
    break_even="#C6303E",
    danger_text="#9C4A06",
    band="rgba(11,128,120,0.14)",
    flat="rgba(11,128,120,0.07)",
    danger="rgba(194,97,12,0.08)",
    other="#C9A227",
    free="#EEF0F4",
    steps=("#A3ACEA", "#7984DB", "#5663CB", "#353F90"),
    diverging=("#B45A12", "#E09A55", "#F7DEC6", "#F4F5F7", "#CFEAE7", "#7CC7BF", "#1F9189", "#07605B"),
    runs=("#1C2230", "#7A1C8C", "#5C7612", "#1B74B3", "#7A5238", "#C9417F"),
)

# In dark the centre is dark and the ends bright, so that "near 1" recedes in both themes.
DARK = Palette(
    ink="#E7EAF1",
    muted="#A4ADBD",
    grid="#232936",
    axis="#3D4656",
    paper="#12151C",
    target="#8F9AF4",
    target_soft="#4C569F",
    target_tint="#2A3160",
    draft="#45C2B6",
    draft_soft="#23706A",
    draft_tint="#143B37",
    rejected="#8790A2",
    formula="#98A1B3",
    break_even="#F0717C",
    danger_text="#F3AF70",
    band="rgba(69,194,182,0.18)",
    flat="rgba(69,194,182,0.08)",
    danger="rgba(238,154,77,0.09)",
    other="#D9B84A",
    free="#222834",
    steps=("#4E5AAE", "#6C79D8", "#929DEE", "#C3CAFA"),
    diverging=("#FBC48E", "#DE8A3C", "#84501F", "#2A2F3A", "#1D504D", "#27938A", "#4CC1B5", "#93E3DA"),
    runs=("#E7EAF1", "#C46BE0", "#A9C24A", "#5DB4EE", "#B9977A", "#FB9CC0"),
)
