#!/usr/bin/env python3
"""Records a takeover, and draws the recording as a picture that plays.

    cargo build -p zoolock-cli
    cargo run -p zoolock-test-support --example with_server -- cli/recording/takeover.py --record
    cli/recording/takeover.py            draws takeover.svg from takeover.jsonl
    cli/recording/takeover.py --check    fails if takeover.svg is not what this program draws

A line of takeover.jsonl is what a terminal showed at some time: seconds, the terminal, the text.
"""

import fcntl
import json
import os
import pty
import re
import selectors
import signal
import struct
import sys
import termios
import time
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = HERE / "../../target/debug"
RECORDED, DRAWN = HERE / "takeover.jsonl", HERE / "takeover.svg"

LOCK = "/locks/nightly"
COLUMNS = 92
# For each terminal: its title and its rows.
TERMINALS = {"watch": (f"zoolock watch {LOCK}", 6), "shell": ("a shell", 14)}

# What is typed into the shell, and how long its result is shown.
SCRIPT = [
    (f"zoolock run --identity db1 {LOCK} sleep 60 &", 2.2),
    (f"zoolock run --identity db2 {LOCK} sleep 60 &", 2.2),
    (f"zoolock list {LOCK}", 2.6),
    ("kill -9 %1", 3.0),
    (f"zoolock list {LOCK}", 3.0),
]


# Recording.


def start(command, rows):
    process, terminal = pty.fork()
    if process == 0:
        path = f"{PROGRAMS.resolve()}:{os.environ['PATH']}"
        os.environ.update(PATH=path, TERM="dumb", PS1="$ ")
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, COLUMNS, 0, 0))
    return process, terminal


def record():
    # The command measures its terminal once it draws, which is after the size is set.
    commands = {
        "watch": ["zoolock", "watch", "--interval", "0.2", LOCK],
        "shell": ["bash", "--norc", "--noprofile", "--noediting", "-i"],
    }
    processes, names = {}, {}
    selector = selectors.DefaultSelector()
    for name, command in commands.items():
        processes[name], terminal = start(command, TERMINALS[name][1])
        names[terminal] = name
        selector.register(terminal, selectors.EVENT_READ)
    shell = next(terminal for terminal, name in names.items() if name == "shell")
    shown, last = [], {}
    begin = time.monotonic()

    def listen(seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                part = names[key.fd], os.read(key.fd, 65536).decode()
                # The watch draws the same again and again.
                if part != last.get(key.fd):
                    shown.append((round(time.monotonic() - begin, 3), *part))
                last[key.fd] = part if part[0] == "watch" else None

    listen(1.5)
    for line, seconds in SCRIPT:
        for letter in line:
            os.write(shell, letter.encode())
            listen(0.025)
        os.write(shell, b"\n")
        listen(seconds)
    RECORDED.write_text("".join(json.dumps(part, ensure_ascii=False) + "\n" for part in shown))
    os.write(shell, b"kill %2; wait; exit\n")
    os.kill(processes["watch"], signal.SIGINT)
    for process in processes.values():
        os.waitpid(process, 0)


# Drawing.


class Screen:
    """As much of a terminal as these programs use."""

    def __init__(self, rows):
        self.rows, self.row, self.column = [""] * rows, 0, 0

    def show(self, text):
        for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", text):
            if part == "\x1b[H":
                self.row = self.column = 0
            elif part == "\x1b[J":
                self.rows[self.row] = self.rows[self.row][: self.column]
                self.rows[self.row + 1 :] = [""] * (len(self.rows) - self.row - 1)
            elif part == "\r":
                self.column = 0
            elif part == "\n":
                self.row += 1
            elif part >= " ":
                if self.column == COLUMNS:
                    self.row, self.column = self.row + 1, 0
                    self.scroll()
                line = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = line[: self.column] + part + line[self.column + 1 :]
                self.column += 1
            self.scroll()

    def scroll(self):
        while self.row >= len(self.rows):
            self.rows = self.rows[1:] + [""]
            self.row -= 1


def lives(parts, name, end):
    """Each text of each row, with the times between which it is shown."""
    screen, shown, done = Screen(TERMINALS[name][1]), {}, []
    for at, _, text in (part for part in parts if part[1] == name):
        screen.show(text)
        for row, line in enumerate(screen.rows):
            old, since = shown.get(row, ("", 0))
            if line.rstrip() != old:
                done.append((row, old, since, at))
                shown[row] = line.rstrip(), at
    done += [(row, line, since, end) for row, (line, since) in shown.items()]
    return [life for life in done if life[1] and life[2] < life[3]]


def in_steps(parts):
    """Times in tenths of a second, so that rows that change together are drawn together."""
    return [(round(at, 1), name, text) for at, name, text in parts]


HEIGHT, LEFT = 18, 20
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"


def draw():
    parts = in_steps(map(json.loads, RECORDED.read_text().splitlines()))
    end = round(max(at for at, _, _ in parts) + 2.5, 1)
    texts, classes, top = [], {}, 12
    frames = []
    for name, (title, rows) in TERMINALS.items():
        high = 34 + rows * HEIGHT + 8
        frames.append(f'<rect class="box" x="8" y="{top}" width="744" height="{high}" rx="6"/>')
        frames.append(f'<text class="title" x="{LEFT}" y="{top + 20}">{escape(title)}</text>')
        for row, line, since, until in lives(parts, name, end):
            life = classes.setdefault((since, until), f"l{len(classes)}")
            y = top + 44 + row * HEIGHT
            kind = " you" if name == "shell" and line.startswith("$ ") else ""
            texts.append(f'<text class="{life}{kind}" x="{LEFT}" y="{y}">{escape(line)}</text>')
        top += high + 10
    rules = []
    for (since, until), life in classes.items():
        begin, close = (f"{100 * at / end:.2f}%" for at in (since, until))
        steps = [("0%", 0)] if since > 0 else []
        steps += [(begin, 1)] + ([(close, 0)] if until < end else [])
        keys = "".join(f"{at}{{opacity:{how}}}" for at, how in steps)
        last = "1" if until == end else "0"
        rules.append(f".{life}{{opacity:{last};animation:{life} {end}s step-end infinite}}@keyframes {life}{{{keys}}}")
    style = (
        f"text{{font:12.5px {FONT};white-space:pre;fill:#1f2328}}.title{{fill:#59636e}}.you{{font-weight:700}}"
        ".page{fill:#fff}.box{fill:#f6f8fa;stroke:#c6cdd5}"
        "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.title{fill:#9198a1}.page{fill:#0d1117}"
        ".box{fill:#161b22;stroke:#3d444d}}"
        "@media(prefers-reduced-motion:reduce){text{animation:none!important}}"
    )
    description = (
        "zoolock watch lists a holder, db1, and a waiter, db2. The holder is killed by kill -9, "
        "and the list shows at once that db2 holds the lock."
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {top}" width="760" height="{top}" role="img"'
    return "\n".join(
        [
            f'{head} aria-labelledby="title description">',
            '<title id="title">A takeover after a crash</title>',
            f'<desc id="description">{description}</desc>',
            f"<style>{style}{''.join(rules)}</style>",
            f'<rect class="page" width="760" height="{top}" rx="8"/>',
            *frames,
            *texts,
            "</svg>",
            "",
        ]
    )


def main():
    if sys.argv[1:] == ["--check"]:
        if DRAWN.read_text() != draw():
            sys.exit("takeover.svg is not as drawn: run cli/recording/takeover.py")
        return
    if sys.argv[1:] == ["--record"]:
        record()
    elif sys.argv[1:]:
        sys.exit(__doc__)
    DRAWN.write_text(draw())


main()
