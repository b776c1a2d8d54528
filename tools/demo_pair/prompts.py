"""The bundled prompts: cut from held-out files by a written rule.

Rule. Held-out files are taken in the order of sha256 of their path. A prompt is the text that ends
right after a line chosen by its kind and begins at the earliest line start that keeps it within 140
tokens; shorter than 100 tokens, or with fewer than 12 lines of text left after the cut, it is passed over.

    code   a `def` line of a module, the third or a later one: the target writes a function body
    docs   the third line of a docstring of at least five lines: the target goes on in prose
    tests  a `def test` line of a test module, the third or a later one: the target writes a test

Cuts of one file lie at least 40 lines apart; all files give their first prompt, then all their
second, and so on. Small models loop when they decode greedily, and loops are easy to draft, which
would flatter the pair: a prompt whose answer repeats more than `tools/make_demo.py` allows is passed over.
"""

import ast
import hashlib
from collections.abc import Iterator
from itertools import zip_longest

from transformers import PreTrainedTokenizerFast

from demo_pair import corpus

KINDS = ("code", "docs", "tests")
SHORTEST, LONGEST = 100, 140
FAR_APART_LINES = 40


def candidates(tokenizer: PreTrainedTokenizerFast, kind: str) -> Iterator[tuple[str, str]]:
    """(path, prompt) of one kind in the rule's order."""
    offers: list[list[tuple[str, str]]] = []
    for path in sorted((p for p in corpus.files() if corpus.is_held_out(p)), key=lambda p: hashlib.sha256(corpus.relative(p).encode()).hexdigest()):
        name = corpus.relative(path)
        if (kind == "tests") == name.startswith("test/"):
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            cuts = _docstring_cuts(lines) if kind == "docs" else _definition_cuts(lines, "def test" if kind == "tests" else "def ")
            offers.append([(name, prompt) for prompt in _far_apart(tokenizer, lines, cuts)])
    for turn in zip_longest(*offers):
        yield from (offer for offer in turn if offer)


def _far_apart(tokenizer: PreTrainedTokenizerFast, lines: list[str], cuts: list[int]) -> Iterator[str]:
    last = -FAR_APART_LINES
    for cut in cuts:
        if cut >= last + FAR_APART_LINES and (prompt := _prompt(tokenizer, lines, cut)):
            last = cut
            yield prompt


def _definition_cuts(lines: list[str], word: str) -> list[int]:
    found = [i + 1 for i, line in enumerate(lines) if line.strip().startswith(word) and line.rstrip().endswith(":")]
    return found[2:]


def _docstring_cuts(lines: list[str]) -> list[int]:
    nodes = (n for n in ast.walk(ast.parse("".join(lines))) if isinstance(n, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(n))
    texts = (node.body[0] for node in nodes)
    return sorted(text.lineno + 2 for text in texts if (text.end_lineno or 0) - text.lineno >= 4)


def _prompt(tokenizer: PreTrainedTokenizerFast, lines: list[str], cut: int) -> str | None:
    if sum(1 for line in lines[cut:] if line.strip()) < 12:
        return None
    for start in range(cut):
        text = "".join(lines[start:cut])
        if len(text) > 12 * LONGEST:
            continue
        length = len(tokenizer(text)["input_ids"])
        if length <= LONGEST:
            return text if length >= SHORTEST else None
    return None
