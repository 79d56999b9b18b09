"""One permit of a semaphore, by the protocol of Curator. The guide shows these lines to users of kazoo."""

import threading
import uuid
from contextlib import contextmanager
from kazoo.exceptions import NoNodeError
from kazoo.recipe.lock import Lock


class Turn(Lock):
    _NODE_NAME, _EXCLUDE_NAMES = "-lock-", ["-lock-"]  # Curator's, not kazoo's


@contextmanager
def permit(client, path, limit):
    leases, own, changed = path + "/leases", f"_c_{uuid.uuid4()}-lease-", threading.Event()
    try:
        with Turn(client, path + "/locks"):
            client.create(f"{leases}/{own}", ephemeral=True, sequence=True, makepath=True)
            while len(nodes := client.get_children(leases, lambda event: changed.set())) > limit:
                changed.wait()
                changed.clear()
            if not any(node.startswith(own) for node in nodes):
                raise NoNodeError  # the session has ended
        yield
    finally:
        for node in client.retry(client.get_children, leases):
            if node.startswith(own):
                client.retry(client.delete, f"{leases}/{node}")
