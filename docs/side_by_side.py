"""Draws the last question of a record that chat keeps, both answers side by side, as SVG.

    go run ./cmd/chat --prompt "..." --temperature 0 --log answer.md
    python3 docs/side_by_side.py answer.jsonl > docs/side-by-side.svg
"""

import json
import sys
import textwrap
from xml.sax.saxutils import escape

WIDTH, LINE, PAD, COLUMNS = 460, 19, 18, 54
CHARACTER = 7.8  # the width that every font gets, so that lines end within their box


def text(kind: str, x: int, y: int, line: str) -> str:
    """A line of text."""
    width = f' textLength="{CHARACTER * len(line):.1f}"' if line else ""
    return f'<text class="{kind}" x="{x}" y="{y}"{width}>{escape(line)}</text>'


def lines_of(text: str) -> list[tuple[str, str]]:
    """The lines of an answer, wrapped: (class, text). Code keeps its lines."""
    out, code = [], False
    for line in text.strip().split("\n"):
        if line.startswith("```"):
            code = not code
            continue
        if code:
            out.append(("code", line))
        else:
            out += [("prose", part) for part in textwrap.wrap(line, COLUMNS)] or [("prose", "")]
    return out


def main() -> None:
    events = [json.loads(line) for line in open(sys.argv[1])]
    ask = [e for e in events if e["event"] == "ask"][-1]
    answers = {e["model"]: e["answer"]["text"] for e in events if e["event"] == "answer" and e["id"] == ask["id"]}
    sides = [("base model", lines_of(answers["base"])), ("after go run ./cmd/train", lines_of(answers["tuned"]))]
    question = textwrap.wrap("> " + " ".join(ask["question"].split()), 2 * COLUMNS + 6)
    top = PAD + LINE * len(question) + 26
    height = top + 40 + LINE * max(len(lines) for _, lines in sides) + PAD
    total = 2 * WIDTH + 3 * PAD
    p = [f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" width="{total}" height="{height}" viewBox="0 0 {total} {height}" role="img" '
         f'aria-label="{escape(ask["question"], {chr(34): "&quot;"})} answered by the base and the tuned model">',
         '<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;white-space:pre}.q{fill:#f0f3f6;font-weight:600}.h{fill:#8b949e}'
         '.prose{fill:#c9d1d9}.code{fill:#7ee787}</style>',
         f'<rect width="{total}" height="{height}" rx="10" fill="#0d1117"/>']
    for i, line in enumerate(question):
        p.append(text("q", PAD, PAD + 14 + i * LINE, line))
    for i, (name, lines) in enumerate(sides):
        x = PAD + i * (WIDTH + PAD)
        p.append(f'<rect x="{x}" y="{top - 12}" width="{WIDTH}" height="{height - top + 12 - PAD + 4}" rx="8" fill="#161b22"/>')
        p.append(text("h", x + 14, top + 10, name))
        for k, (kind, line) in enumerate(lines):
            p.append(text(kind, x + 14, top + 38 + k * LINE, line))
    p.append("</svg>")
    print("\n".join(p))


if __name__ == "__main__":
    main()
