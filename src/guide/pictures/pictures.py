#!/usr/bin/env python3
"""Draws the pictures of the README and of the guide.

    src/guide/pictures/pictures.py           writes all of them, and pictures.txt for rustdoc
    src/guide/pictures/pictures.py --check   fails if one of them is not what this program draws
"""

import base64
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).parent

# For each class: what it sets, in light mode and in dark mode.
COLORS = {
    ".page": ("fill", "#ffffff", "#0d1117"),
    "text": ("fill", "#1f2328", "#e6edf3"),
    ".quiet": ("fill", "#59636e", "#9198a1"),
    ".box": ("fill", "#f6f8fa", "#161b22"),
    ".good": ("fill", "#dafbe1", "#12361f"),
    ".warn": ("fill", "#fff1c2", "#3d2e08"),
    ".bad": ("fill", "#ffe0dd", "#4a1a1c"),
    ".wait": ("fill", "#ddf4ff", "#12294a"),
    ".box,.edge": ("stroke", "#c6cdd5", "#3d444d"),
    ".good,.good-line": ("stroke", "#1a7f37", "#3fb950"),
    ".warn,.warn-line": ("stroke", "#9a6700", "#d29922"),
    ".bad,.bad-line": ("stroke", "#cf222e", "#f85149"),
    ".wait,.wait-line": ("stroke", "#0969da", "#4493f8"),
    ".arrow": ("stroke", "#59636e", "#9198a1"),
    ".tip": ("fill", "#59636e", "#9198a1"),
    ".bad-text": ("fill", "#b3121d", "#ff7b72"),
}

FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
CODE = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def style():
    def rules(mode):
        return "".join(f"{name}{{{what[0]}:{what[mode]}}}" for name, what in COLORS.items())

    return (
        f"text{{font:14px {FONT}}}"
        f".code{{font-family:{CODE};font-size:13px}}"
        ".head{font-size:15px;font-weight:600}.small{font-size:12.5px}"
        ".arrow,.line{fill:none;stroke-width:1.5}.dash{stroke-dasharray:4 4}"
        f"{rules(1)}@media(prefers-color-scheme:dark){{{rules(2)}}}"
    )


class Picture:
    """What has been drawn so far."""

    def __init__(self, width, height, title, description):
        self.size = width, height
        self.title = title
        self.description = description
        self.parts = []

    def add(self, part):
        self.parts.append(part)

    def box(self, x, y, width, height, kind="box", radius=6):
        self.add(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>')

    def text(self, x, y, text, kind="", anchor="start"):
        kind = f' class="{kind}"' if kind else ""
        anchor = f' text-anchor="{anchor}"' if anchor != "start" else ""
        self.add(f'<text{kind} x="{x}" y="{y}"{anchor}>{escape(text)}</text>')

    def label(self, x, y, width, height, text, kind="box", font=""):
        """A box with a text in its middle."""
        self.box(x, y, width, height, kind)
        self.text(x + width / 2, y + height / 2 + 5, text, font, "middle")

    def line(self, points, kind="line edge"):
        path = "M" + "L".join(f"{x} {y}" for x, y in points)
        self.add(f'<path class="{kind}" d="{path}"/>')

    def arrow(self, points, kind="arrow"):
        self.add(f'<path class="{kind}" marker-end="url(#tip)" d="M' + "L".join(f"{x} {y}" for x, y in points) + '"/>')

    def curve(self, start, end):
        (x, y), (to_x, to_y) = start, end
        middle = (x + to_x) / 2
        self.add(
            f'<path class="arrow" marker-end="url(#tip)" d="M{x} {y}C{middle} {y} {middle} {to_y} {to_x} {to_y}"/>'
        )

    def svg(self):
        width, height = self.size
        tip = (
            '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto-start-reverse"><path class="tip" d="M0 0L8 4L0 8z"/></marker>'
        )
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="title description">'
        )
        return "\n".join(
            [
                head,
                f'<title id="title">{escape(self.title)}</title>',
                f'<desc id="description">{escape(self.description)}</desc>',
                f"<style>{style()}</style>",
                f"<defs>{tip}</defs>",
                f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def levels():
    it = Picture(
        760,
        392,
        "The two queues of a lock",
        "Three processes contend for one lock. The threads of each process queue inside the process. The thread at the "
        "front of each has a node in ZooKeeper, where the node with the lowest number holds the lock and each other "
        "node watches the one before it.",
    )
    it.text(24, 34, "In-process queue", "head")
    it.text(24, 54, "threads of one process, in the order of their calls", "quiet small")
    it.text(440, 34, "ZooKeeper queue", "head")
    it.text(440, 54, "one node per process, in the order of creation", "quiet small")
    it.box(440, 72, 296, 300)
    it.text(456, 98, "/locks/report", "code")
    processes = [
        ("process A", ["t1", "t2", "t3"], "good", "0000000007", "holds the lock"),
        ("process B", ["t4", "t5"], "wait", "0000000008", "waits, next"),
        ("process C", ["t6"], "wait", "0000000009", "waits"),
    ]
    for row, (name, threads, kind, number, state) in enumerate(processes):
        y = 72 + 102 * row
        it.box(24, y, 308, 96)
        it.text(38, y + 24, name)
        # The front of the queue is on the right, beside ZooKeeper.
        for place, thread in enumerate(threads):
            x = 262 - 72 * place
            it.label(x, y + 40, 52, 36, thread, kind if place == 0 else "box", "code")
            if place > 0:
                it.arrow([(x + 54, y + 58), (x + 70, y + 58)])
        node = 112 + 86 * row
        it.label(490, node, 224, 60, "", kind)
        it.text(504, node + 25, f"_c_..-lock-{number}", "code")
        it.text(504, node + 46, state, "small")
        it.curve((316, y + 58), (487, node + 30))
        if row > 0:
            it.arrow([(602, node - 1), (602, node - 24)])
            it.text(612, node - 8, "watches", "quiet small")
    return it


def lease():
    it = Picture(
        760,
        330,
        "The life of a lease",
        "From the last heartbeat that the servers certainly received, is_held() stays true until the lease ends, or "
        "until a margin before that. The lease ends before the session does, and the next holder can be granted the "
        "lock only after the session has ended.",
    )
    left, right = 136, 596  # 0 and T

    def at(share):
        return round(left + (right - left) * share, 1)

    end = at(0.98)
    turn = at(0.76)
    it.text(24, 34, "No heartbeat is answered any more. Who may do what, and when?", "head")
    it.text(24, 54, "T is the session timeout; the lease is 0.98 T", "quiet small")
    for share, text in ((0, "0"), (0.25, "T/4"), (0.5, "T/2"), (1, "T")):
        it.text(at(share), 90, text, "small", "middle")
        it.line([(at(share), 98), (at(share), 106)])
    it.arrow([(left, 102), (740, 102)])
    it.line([(turn, 102), (turn, 250)], "line warn-line dash")
    it.line([(end, 102), (end, 250)], "line bad-line dash")
    it.line([(right, 106), (right, 250)], "line edge dash")

    it.text(24, 141, "this process")
    it.box(left, 122, turn - left, 32, "good", 0)
    it.text((left + turn) / 2, 143, "is_held() is true: may work", anchor="middle")
    it.box(turn, 122, end - turn, 32, "warn", 0)
    it.text((turn + end) / 2, 143, "margin: stops", "small", "middle")
    it.box(end, 122, 736 - end, 32, "bad", 0)
    it.text((end + 736) / 2, 143, "must not act", anchor="middle")

    it.text(24, 187, "the servers")
    it.box(left, 168, right - left, 32, "wait", 0)
    it.text((left + right) / 2, 189, "the session lives: no other client can hold the lock", anchor="middle")
    it.label(right, 168, 736 - right, 32, "may be over")

    it.text(24, 233, "next holder")
    it.box(left, 214, right - left, 32, "box", 0)
    it.text((left + right) / 2, 235, "waits", anchor="middle")
    it.box(right, 214, 736 - right, 32, "good", 0)
    it.text((right + 736) / 2, 235, "can hold", anchor="middle")

    it.text(left, 270, "the client sends the last heartbeat", "small")
    it.text(left, 287, "that the servers certainly receive", "small")
    it.text(turn, 270, "is_held() turns false", "small", "middle")
    it.text(end, 287, "the lease ends", "small", "end")
    it.text(right + 4, 270, "the session may end", "small")
    it.text(24, 316, "Without a margin, is_held() turns false when the lease ends. A margin is at most T/4.", "quiet small")
    return it


def fence():
    it = Picture(
        760,
        400,
        "A late write is refused by its fencing token",
        "Holder A claims the data with token 33, reads, and is paused. Its lease ends. Holder B is granted the lock "
        "with token 34, claims, reads and writes. When A continues, its write with token 33 is refused.",
    )
    it.text(24, 34, "The data refuse a holder that comes too late", "head")
    it.arrow([(130, 58), (740, 58)])
    it.text(736, 50, "time", "quiet small", "end")
    top, middle, bottom = 78, 186, 300
    it.text(24, top + 22, "holder A")
    it.text(24, top + 40, "token 33", "quiet small")
    it.text(24, middle + 26, "the data")
    it.text(24, middle + 44, "highest token", "quiet small")
    it.text(24, bottom + 22, "holder B")
    it.text(24, bottom + 40, "token 34", "quiet small")

    it.label(130, top, 66, 44, "claims", "good")
    it.label(204, top, 60, 44, "reads", "good")
    it.box(272, top, 338, 44, "warn")
    it.text(441, top + 19, "paused; still believes that it holds the lock", "", "middle")
    it.text(441, top + 36, "its lease ends, and so does its session", "quiet small", "middle")
    it.label(618, top, 66, 44, "writes", "bad")

    it.box(130, middle, 236, 60, "box")
    it.text(248, middle + 35, "33", "code", "middle")
    it.box(366, middle, 370, 60, "box")
    it.text(551, middle + 35, "34", "code", "middle")

    it.label(366, bottom, 66, 44, "claims", "good")
    it.label(440, bottom, 60, 44, "reads", "good")
    it.label(508, bottom, 66, 44, "writes", "good")

    for x, text, row in (
        (163, "33", top),
        (234, "", top),
        (399, "34", bottom),
        (470, "", bottom),
        (541, "34", bottom),
    ):
        start, end = (top + 46, middle - 3) if row == top else (bottom - 2, middle + 63)
        it.arrow([(x, start), (x, end)])
        it.text(x + 8, (start + end) / 2 + 5, text, "code")
    it.line([(651, top + 46), (651, middle - 12)], "line bad-line")
    it.line([(644, middle - 19), (658, middle - 5)], "line bad-line")
    it.line([(658, middle - 19), (644, middle - 5)], "line bad-line")
    it.text(662, top + 74, "33 < 34:", "bad-text")
    it.text(662, top + 92, "refused", "bad-text")
    it.text(24, 378, "Each holder claims before it reads. Otherwise A could write between the read and the write of B.", "quiet small")
    return it


def outage():
    it = Picture(
        760,
        408,
        "Two outages, as a service sees them",
        "In a short outage the client is suspended, holds stay held and is_held() stays true. In a long one the lease "
        "ends: is_held() turns false and the hold is lost for good, also after the client is connected again.",
    )
    left, lease_ends, client_lost, back, right = 152, 546, 586, 646, 736
    short, long = (238, 326), (412, back)
    it.text(24, 34, "Two outages, as a service sees them", "head")
    for (low, high), text in ((short, "a short outage"), (long, "an outage longer than the lease")):
        it.text((low + high) / 2, 66, text, "small", "middle")
        it.box(low, 74, high - low, 300, "box", 0)
    it.line([(lease_ends, 74), (lease_ends, 374)], "line bad-line dash")
    it.line([(client_lost, 74), (client_lost, 374)], "line edge dash")
    it.text(lease_ends + 4, 394, "the lease ends", "small", "end")
    it.text(client_lost - 4, 394, "no connection for T", "small")
    rows = [
        (
            "Client::state()",
            [
                (left, "good", "Connected"),
                (short[0], "warn", "Suspended"),
                (short[1], "good", "Connected"),
                (long[0], "warn", "Suspended"),
                (client_lost, "bad", "Lost"),
                (back, "good", "Connected"),
            ],
        ),
        (
            "Hold::state()",
            [
                (left, "good", "Held"),
                (short[0], "warn", "Suspended"),
                (short[1], "good", "Held"),
                (long[0], "warn", "Suspended"),
                (lease_ends, "bad", "Lost, for good"),
            ],
        ),
        ("Hold::is_held()", [(left, "good", "true"), (lease_ends, "bad", "false")]),
        ("waiting calls", [(left, "wait", "keep their place; if the session has ended, they queue again")]),
        (
            "readiness probe",
            [
                (left, "good", "200"),
                (short[0], "warn", "503"),
                (short[1], "good", "200"),
                (long[0], "warn", "503"),
                (back, "good", "200"),
            ],
        ),
    ]
    for row, (name, spans) in enumerate(rows):
        y = 90 + 56 * row
        it.text(24, y + 25, name, "code" if "::" in name else "")
        ends = [x for x, _, _ in spans[1:]] + [right]
        for (x, kind, text), end in zip(spans, ends):
            it.box(x, y, end - x, 40, kind, 0)
            it.text((x + end) / 2, y + 25, text, "small", "middle")
    return it


PICTURES = {"levels": levels, "lease": lease, "fence": fence, "outage": outage}

# Those on pages of rustdoc.
RUSTDOC = ["fence.svg", "lease.svg", "outage.svg"]


def drawn():
    """Every file, and what should be in it."""
    pictures = {f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}
    definitions = []
    for name in RUSTDOC:
        # rustdoc serves no files, so its pages contain the pictures in their links.
        data = base64.b64encode(pictures[name].encode()).decode()
        definitions.append(f"[{name}]: data:image/svg+xml;base64,{data}\n")
    return {**pictures, "pictures.txt": "".join(definitions)}


def main():
    files = drawn()
    if sys.argv[1:] == ["--check"]:
        read = lambda file: file.read_text() if file.exists() else ""
        wrong = [name for name, text in files.items() if read(HERE / name) != text]
        if wrong:
            sys.exit(f"not as drawn: {', '.join(wrong)}: run src/guide/pictures/pictures.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        for name, text in files.items():
            (HERE / name).write_text(text)


main()
