"""Input and output of the peers in Python."""

import os
import queue
import sys
import threading


def read_lines():
    """The lines as they arrive. When they end, the process ends, whatever it is waiting for."""
    lines = queue.Queue()

    def read():
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    return lines


def answer(line):
    print(line, flush=True)
