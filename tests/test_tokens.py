"""Who wrote what: rounds to spans, and text that stays text."""

from core.palette import LIGHT
from core.rounds import Round
from core.ui import tokens

ROUNDS = [
    Round(start=0, drafted=3, accepted=2, emitted=3, rejected=True, drafted_low=3),
    Round(start=3, drafted=1, accepted=1, emitted=2, rejected=False, drafted_low=1),
    Round(start=5, drafted=0, accepted=0, emitted=1, rejected=False, drafted_low=0),
]
PIECES = ("a", "<b>", "$x$", "\n", "&amp;", "'\"")


def test_every_token_has_one_writer():
    run = tokens.tokens(PIECES, ROUNDS)
    assert [token.text for token in run] == list(PIECES)
    assert [token.writer for token in run] == ["draft", "draft", "target", "draft", "bonus", "bonus"]
    assert [token.round for token in run] == [1, 1, 1, 2, 2, 3]
    assert run[2].rejected == 1


def test_text_is_escaped_and_verbatim():
    shown = tokens.text(LIGHT, tokens.tokens(PIECES, ROUNDS))
    assert "<b>" not in shown.split("</style>")[1]
    for escaped in ("&lt;b&gt;", "$x$", "&amp;amp;", "&#x27;&quot;"):
        assert escaped in shown


def test_ruler_has_a_group_per_round_and_a_hollow_box_per_rejection():
    shown = tokens.ruler(LIGHT, tokens.tokens(PIECES, ROUNDS)).split("</style>")[1]
    assert 'aria-label="Accepted drafts in each of 3 rounds"' in shown
    assert shown.count('class="rejected"') == 1
    assert 'title="round 1: 2 accepted of 3"' in shown
