"""A Dask scheduler and a worker in processes of their own, behind relays: they can be restarted at the same addresses,
and what passes between them and others can be cut."""

import contextlib
import gc
import select
import socket
import subprocess
import sys
import threading
import time

SCHEDULER = """
import asyncio, distributed
async def main():
    async with distributed.Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.port, flush=True)
        await scheduler.finished()
asyncio.run(main())
"""
WORKER = """
import asyncio, sys, distributed
async def main(scheduler, address):
    place = {"host": "127.0.0.1", "contact_address": address}
    async with distributed.Worker(scheduler, **place, nthreads=1, memory_limit="1GB", dashboard=False) as worker:
        print(worker.listener.listen_address.rpartition(":")[2], flush=True)
        await worker.finished()
asyncio.run(main(*sys.argv[1:]))
"""


class Relay:
    """A port of this machine whose connections go on to another port, which may change."""

    def __init__(self):
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self.target, self._open, self._guard = None, set(), threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Break all connections; new ones are taken."""
        with self._guard:
            broken, self._open = self._open, set()
        for each in broken:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._carry, args=[self._listening.accept()[0]], daemon=True).start()

    def _carry(self, near):
        with near, contextlib.suppress(OSError, TypeError), socket.create_connection(("127.0.0.1", self.target)) as far:
            with self._guard:
                self._open |= {near, far}
            try:
                while True:
                    for ready in select.select([near, far], [], [])[0]:
                        content = ready.recv(1 << 16)
                        if not content:
                            return
                        (far if ready is near else near).sendall(content)
            finally:
                with self._guard:
                    self._open -= {near, far}


class DaskProcesses:
    """One scheduler, at `address`, and one worker."""

    def __init__(self):
        self._scheduler, self._worker, self._processes = Relay(), Relay(), []
        self.address = self._scheduler.address

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *about):
        self.kill()
        self._scheduler.close()
        self._worker.close()

    def start(self):
        self._scheduler.target = self._begin(SCHEDULER)
        self._worker.target = self._begin(WORKER, f"tcp://127.0.0.1:{self._scheduler.target}", self._worker.address)

    def kill(self):
        """As a machine that loses power: nobody says goodbye."""
        for process in self._processes:
            process.kill()
            process.communicate()
        self._processes.clear()
        self._scheduler.target = self._worker.target = None

    def cut(self):
        """Break all connections between clients and the scheduler, which goes on with its worker."""
        self._scheduler.cut()

    def _begin(self, program, *words):
        """The port at which a new process listens."""
        process = subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        return int(process.stdout.readline())


def close_left_open(seconds=10.0):
    """Close the sockets that Dask's library leaves open, where warnings of them are ignored: garbage that is collected
    later fails another test. Loops that end meanwhile have this long to close their own."""
    from tornado.iostream import IOStream

    until = time.monotonic() + seconds
    while True:
        gc.collect()
        left = [each for each in gc.get_objects() if issubclass(type(each), IOStream) and not each.closed()]
        if not left or time.monotonic() > until:
            break
        time.sleep(0.1)
    for stream in left:
        stream.socket.close()
