"""What the peers in Python read and write."""

import os
import queue
import sys
import threading


def read_lines():
    """The lines as they come; the process ends with them, whatever it waits for."""
    lines = queue.Queue()

    def read():
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines


def answer(line):
    print(line, flush=True)
