#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cast_svg.py CAST TITLE: an animated SVG, on standard output, of what `defib demo --record` wrote.

It understands what the demo writes and nothing else: text, new lines, colours, "up N lines" and
"erase what is below". A viewer without animation, or with reduced motion, shows the last frame.
"""

import html
import json
import pathlib
import re
import sys

PLAY_S, HOLD_S, FRAMES_A_SECOND = 14, 6, 4
CELL_X, CELL_Y, PAD, TOP = 7.8, 17, 14, 34
STYLES = {"1": "b", "2": "d", "31": "r", "32": "g", "33": "y"}
CSS = """
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
fill:#d7dae0;white-space:pre}
.b{font-weight:700;fill:#fff}.d{fill:#7d8492}.r{fill:#ff7b72}.g{fill:#56d364}.y{fill:#e3b341}
.t{fill:#7d8492;text-anchor:middle}
"""
CODE = re.compile(r"\x1b\[(\d*)([AJm])|(\r?\n)|(\r)|([^\x1b\r\n]+)")


class Screen:
    """Lines of (text, style) pieces; the demo's output never scrolls."""

    def __init__(self):
        self.lines, self.row, self.style = [[]], 0, ""

    def feed(self, text):
        for number, code, newline, _back, plain in CODE.findall(text):
            if plain:
                self.lines[self.row].append((plain, self.style))
            elif newline:
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append([])
            elif code == "A":
                self.row -= int(number or 1)
            elif code == "J":
                del self.lines[self.row:]
                self.lines.append([])
            elif code == "m":
                self.style = STYLES.get(number, "")

    def shown(self):
        return [tuple(line) for line in self.lines]


def read(path):
    """(columns, [(seconds, lines)]) of a recording."""
    head, *events = path.read_text().splitlines()
    screen, frames = Screen(), []
    for event in events:
        at, kind, text = json.loads(event)
        if kind == "o":
            screen.feed(text)
            frames.append((at, screen.shown()))
    return json.loads(head)["width"], frames


def sampled(frames):
    """A frame for each moment that is played, and then the last."""
    count, length = PLAY_S * FRAMES_A_SECOND, frames[-1][0]
    played, at = [], 0
    for i in range(count):
        while at + 1 < len(frames) and frames[at + 1][0] <= length * i / count:
            at += 1
        played.append(frames[at][1])
    return [*played, frames[-1][1]]


def variants(played):
    """{(row, content): [first frame, frame after the last]}; a content that returns is another."""
    found, current = [], {}
    for i, lines in enumerate(played):
        for row in range(max(map(len, played))):
            content = lines[row] if row < len(lines) else ()
            if row in current and current[row][1] == content:
                current[row][3] = i + 1
            else:
                current[row] = [row, content, i, i + 1]
                found.append(current[row])
    return [one for one in found if one[1]]


def line_svg(row, content):
    pieces, column = [], 0
    for text, style in content:
        mark = f' class="{style}"' if style else ""
        if text.strip():
            x = PAD + (column + len(text) - len(text.lstrip())) * CELL_X
            pieces.append(f'<tspan x="{x:.1f}"{mark}>{html.escape(text.strip(), False)}</tspan>')
        column += len(text)
    return f'y="{TOP + (row + 1) * CELL_Y}">{"".join(pieces)}</text>'


def animation(name, first, end, count):
    """Visible from `first` to `end` only; the last frame is also visible without animation."""
    total = (PLAY_S + HOLD_S) * FRAMES_A_SECOND
    begin, stop = (f"{100 * i / total:.2f}%" for i in (first, end))
    keys = [f"{begin}{{visibility:visible}}"]
    if first:
        keys.insert(0, "0%{visibility:hidden}")
    if end < count:
        keys.append(f"{stop}{{visibility:hidden}}")
    still = "" if end == count else "visibility:hidden;"
    return (f"@keyframes {name}{{{''.join(keys)}}}"
            f".{name}{{{still}animation:{name} {PLAY_S + HOLD_S}s step-end infinite}}\n")


def picture(path, title):
    columns, frames = read(path)
    played = sampled(frames)
    width = round(2 * PAD + columns * CELL_X)
    height = round(TOP + PAD + (max(map(len, played)) + 0.5) * CELL_Y)
    style, body = [CSS], []
    for i, (row, content, first, end) in enumerate(variants(played)):
        moving = first > 0 or end < len(played)
        if moving:
            style.append(animation(f"a{i}", first, end, len(played)))
        body.append(f'<text{f" class={chr(34)}a{i}{chr(34)}" if moving else ""} '
                    + line_svg(row, content))
    style.append("@media (prefers-reduced-motion:reduce){text{animation:none!important}}\n")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{html.escape(title)}">', f"<title>{html.escape(title)}</title>",
        f"<style>{''.join(style)}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>',
        *(f'<circle cx="{PAD + 6 + 18 * i}" cy="17" r="5.5" fill="{color}"/>'
          for i, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))),
        f'<text class="t" x="{width / 2:.0f}" y="21">{html.escape(title)}</text>',
        *body, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(picture(pathlib.Path(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
