"""kazoo's locks, controlled by the commands described in src/peer.rs."""

import os
import sys
import time

from kazoo.client import KazooClient
from kazoo_permit import permit
from lines import answer, read_lines

# The patterns for node names of other clients that exclude a mutex, a read lock and a write lock.
OTHERS = {
    "lock": ["-lock-"],
    "plain": [],
    "read": ["-lock-", "__WRIT__"],
    "write": ["-lock-", "__WRIT__", "__READ__"],
}


def main(hosts, who):
    lines = read_lines()
    client = KazooClient(hosts=hosts, timeout=20)
    client.start(timeout=30)
    answer("ok")
    peer = Peer(client, who)
    while True:
        try:
            peer.obey(lines.get().split())
            answer("ok")
        except Exception as error:
            answer(f"error {error!r}".replace("\n", " "))


class Peer:
    def __init__(self, client, who):
        self.client = client
        self.who = who
        self.give_back = None

    def obey(self, words):
        if words[0] == "run":
            times, folder, taking = int(words[1]), words[2], words[3:]
            for _ in range(times):
                self.take(taking)
                kind = {"plain": "lock", "acquire": "permit"}.get(taking[0], taking[0])
                visit(folder, kind, self.who)
                self.unlock()
        elif words[0] == "unlock":
            self.unlock()
        else:
            self.take(words)

    def take(self, words):
        kind, path, *numbers = words
        if kind == "acquire":
            count, limit = map(int, numbers)
            if count != 1:
                raise ValueError("one permit at a time")
            held = permit(self.client, path, limit)
            held.__enter__()
            self.give_back = lambda: held.__exit__(None, None, None)
            return
        recipe = {
            "lock": self.client.Lock,
            "plain": self.client.Lock,
            "read": self.client.ReadLock,
            "write": self.client.WriteLock,
        }[kind]
        lock = recipe(path, self.who, extra_lock_patterns=OTHERS[kind])
        if not lock.acquire():
            raise RuntimeError("not acquired")
        self.give_back = lock.release

    def unlock(self):
        self.give_back()
        self.give_back = None


def visit(folder, kind, who):
    """Follows the rules of the monitor, described in src/monitor.rs."""
    own = os.path.join(folder, "in", f"{kind}.{who}.0")
    with open(own, "x"):
        pass
    seen = ",".join(os.listdir(os.path.join(folder, "in")))
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(f"{who} {kind} {seen}\n")
    alone = kind in ("lock", "write")
    counter = os.path.join(folder, "counter")
    if alone:
        with open(counter) as file:
            count = int(file.read().strip() or 0)
    time.sleep(0.001)
    if alone:
        with open(counter, "w") as file:
            file.write(str(count + 1))
    os.remove(own)


if __name__ == "__main__":
    main(*sys.argv[1:])
