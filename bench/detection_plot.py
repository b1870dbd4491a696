# SPDX-License-Identifier: Apache-2.0
"""The plot of bench/detection as SVG: time to detection against mistakes, light and dark."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 900, 600
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 56, 64
X_TICKS = (1, 2, 3, 5, 10, 20, 30, 60)
Y_TICKS = (0, 1, 3, 10, 30, 100, 300)
X_LEAST, X_MOST = 0.7, 100

STYLE = """
  svg { color-scheme: light dark; --paper: #ffffff; --ink: #1f2328; --soft: #59636e;
    --line: #d9dee3; --defib: #0b5fd0; --fixed: #6b7280; --phi: #b45309; --cassandra: #a21caf;
    --chen: #15803d; }
  @media (prefers-color-scheme: dark) { svg { --paper: #0d1117; --ink: #e6edf3; --soft: #9198a1;
    --line: #2b323b; --defib: #6cb2ff; --fixed: #9aa4af; --phi: #f0a04b; --cassandra: #e38cf2;
    --chen: #5bd07f; } }
  text { font: 13px system-ui, sans-serif; fill: var(--ink); }
  .soft { fill: var(--soft); } .title { font-size: 16px; font-weight: 600; }
  .grid { stroke: var(--line); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
  .label { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
"""


def x_of(seconds):
    share = math.log(seconds / X_LEAST) / math.log(X_MOST / X_LEAST)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def y_of(mistakes, most):
    share = math.log1p(mistakes) / math.log1p(most)
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


class Plot:
    def __init__(self, most, title):
        self.most = most
        self.taken = []  # boxes of labels
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="var(--paper)"/>']
        self.text(LEFT, 26, title, "title")
        self.axes()

    def text(self, x, y, words, kind="", anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
                          f"{more}>{escape(words)}</text>")

    def axes(self):
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        for tick in Y_TICKS:
            if tick <= self.most:
                y = y_of(tick, self.most)
                self.parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" '
                                  f'class="{"grid" if tick else "axis"}"/>')
                self.text(LEFT - 8, y + 4, str(tick), "soft", "end")
        for tick in X_TICKS:
            if tick >= X_LEAST:
                x = x_of(tick)
                self.parts.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}"'
                                  ' class="axis"/>')
                self.text(x, bottom + 20, f"{tick} s", "soft", "middle")
        middle = (TOP + bottom) / 2
        self.text((LEFT + right) / 2, HEIGHT - 16,
                  "time from a worker's death to its detection, median "
                  "(heartbeats are 1 s apart)", "soft", "middle")
        self.text(20, middle, "live workers declared dead", "soft", "middle",
                  f' transform="rotate(-90 20 {middle:.1f})"')

    def curve(self, colour, points, dash=""):
        path = " ".join(f"{x_of(x):.1f},{y_of(y, self.most):.1f}" for x, y in points
                        if X_LEAST <= x <= X_MOST)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" class="curve" stroke="var(--{colour})"'
                          f"{dashed}/>")

    def legend(self, rows, x=640, y=70):
        for i, (colour, label, dash) in enumerate(rows):
            at = y + 22 * i
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            self.parts.append(f'<line x1="{x}" y1="{at}" x2="{x + 34}" y2="{at}" class="curve" '
                              f'stroke="var(--{colour})"{dashed}/>')
            self.text(x + 42, at + 4, label)
        at = y + 22 * len(rows)
        self.parts.append(f'<circle cx="{x + 17}" cy="{at}" r="5" fill="var(--paper)" '
                          'stroke="var(--ink)" stroke-width="2"/>')
        self.text(x + 42, at + 4, "rule of another system, scaled")

    def place(self, x, y, width):
        """Where a label of this width covers none that is there: beside, above, below the point."""
        for dx, dy in ((10, 4), (10, -8), (10, 17), (-width - 10, 4), (10, 30), (10, -22),
                       (-width - 10, 17), (-width - 10, -8)):
            box = (x + dx, y + dy - 11, x + dx + width, y + dy + 3)
            if box[2] < WIDTH - 4 and box[0] > LEFT and not any(
                    box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3]
                    for b in self.taken):
                break
        self.taken.append(box)
        return x + dx, y + dy

    def point(self, colour, x, y, label, hollow=False):
        cx, cy = x_of(x), y_of(y, self.most)
        fill = "var(--paper)" if hollow else f"var(--{colour})"
        self.parts.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="5" fill="{fill}" '
                          f'stroke="var(--{colour})" stroke-width="2"/>')
        self.taken.append((cx - 6, cy - 6, cx + 6, cy + 6))
        self.text(*self.place(cx, cy, 6.6 * len(label)), label, "label",
                  more=f' style="fill: var(--{colour})"')

    def svg(self):
        return "\n".join([*self.parts, "</svg>", ""])
