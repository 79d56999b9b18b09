"""Measures kazoo's locks, controlled by the commands described in benches/locks/program.rs."""

import platform
import sys
import threading
import time

import kazoo
from kazoo.client import KazooClient
from lines import answer, read_lines

SESSION_SECONDS = 30
WRITE_EACH = 10


def main(hosts):
    lines = read_lines()
    bench = Bench(hosts)
    answer("ok")
    while True:
        words = lines.get().split()
        try:
            answer(f"ok {getattr(bench, words[0])(*words[1:]) or ''}")
        except Exception as error:
            answer(f"error {error!r}".replace("\n", " "))


class Bench:
    """Has a method for each command."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.open = []
        self.holder = None
        self.held = None
        self.waiting = []

    def connect(self):
        client = KazooClient(hosts=self.hosts, timeout=SESSION_SECONDS)
        client.start(timeout=SESSION_SECONDS)
        return client

    def sessions(self, count):
        while len(self.open) > int(count):
            close(self.open.pop())
        while len(self.open) < int(count):
            self.open.append(self.connect())

    def version(self):
        return f"kazoo {kazoo.__version__}, Python {platform.python_version()}"

    def requests(self):
        pass

    def bench(self, what, threads, seconds, path):
        steps = []
        for number, session in enumerate(self.open):
            shared = session.Lock(path)
            for thread in range(int(threads)):
                steps.append(step(session, what, number, thread, path, shared))
        together = threading.Barrier(len(steps))

        def run(step):
            together.wait()
            begun = now = time.perf_counter_ns()
            ends = [begun]
            while now - begun < float(seconds) * 1e9:
                step(len(ends) - 1)
                now = time.perf_counter_ns()
                ends.append(now)
            return ends

        runs = [task.result() for task in [Task(run, step) for step in steps]]
        took = max(ends[-1] for ends in runs) - min(ends[0] for ends in runs)
        counts = ",".join(str(len(ends) - 1) for ends in runs)
        return times(took, counts, [b - a for ends in runs for a, b in zip(ends, ends[1:])])

    def hold(self, path):
        self.holder = self.connect()
        self.held = self.holder.Lock(path)
        self.held.acquire()

    def waiters(self, count, path):
        parked = threading.Barrier(int(count) + 1)
        self.gate = threading.Event()

        def wait(lock):
            parked.wait()
            self.gate.wait()
            lock.acquire()
            granted = time.perf_counter_ns()
            lock.release()
            return granted

        self.waiting = [Task(wait, self.open[0].Lock(path)) for _ in range(int(count))]
        parked.wait()

    def queue(self):
        self.gate.set()

    def release(self):
        begun = time.perf_counter_ns()
        self.held.release()
        grants = sorted([begun] + [waiter.result() for waiter in self.waiting])
        took = time.perf_counter_ns() - begun
        self.waiting = []
        close(self.holder)
        return times(took, "-", [b - a for a, b in zip(grants, grants[1:])])


class Task:
    """A call on its own thread."""

    def __init__(self, call, argument):
        self.error = None

        def run():
            try:
                self.value = call(argument)
            except Exception as error:
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def result(self):
        self.thread.join()
        if self.error:
            raise self.error
        return self.value


def step(session, what, number, thread, path, shared):
    """The operation that one thread repeats."""

    def both(lock):
        lock.acquire()
        lock.release()

    if what == "own":
        own = session.Lock(f"{path}/{number}-{thread}")
        return lambda turn: both(own)
    if what == "one":
        return lambda turn: both(shared)
    if what == "try":
        return lambda turn: refused(shared)
    if what == "read-write":
        read, write = session.ReadLock(path), session.WriteLock(path)
        first = number * 7 + thread * 3
        return lambda turn: both(read if (first + turn) % WRITE_EACH else write)
    raise ValueError(f"nothing to do is called {what}")


def refused(lock):
    if lock.acquire(blocking=False):
        raise RuntimeError("it was granted a lock that is held")


def close(client):
    client.stop()
    client.close()


def times(took, counts, each):
    return " ".join(map(str, [took, counts, *each]))


if __name__ == "__main__":
    main(sys.argv[1])
