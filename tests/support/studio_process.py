"""`parley studio` as a process of its own, and somebody who talks to it over real connections."""

import http.client
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from urllib.parse import urlencode


class Visitor:
    """Somebody with the token of a studio."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        self.host, port, self.token = re.match(r"http://(.+):(\d+)/welcome#(.+)", address).groups()
        self.port = int(port)
        self._headers = {"origin": f"http://{self.host}:{port}"}

    def ask(self, method, path, body=None, **headers):
        """(status, headers, text) of one request on a connection of its own."""
        line = http.client.HTTPConnection(self.host, self.port, timeout=120)
        try:
            line.request(method, path, body, {**self._headers, **headers})
            with line.getresponse() as answer:
                return answer.status, answer.headers, answer.read().decode()
        finally:
            line.close()

    def enter(self):
        """Exchange the token for the cookie, and read what pages prove themselves by."""
        status, headers, _ = self.ask("POST", "/enter", self.token)
        assert status == 204
        self._headers["cookie"] = headers["set-cookie"].split(";")[0]
        self._headers["x-parley-csrf"] = re.search('"x-parley-csrf": "([^"]+)"', self.get("/jobs")).group(1)
        return self

    def get(self, path, **query):
        return self.ask("GET", f"{path}?{urlencode(query)}" if query else path)[2]

    def post(self, path, **form):
        """(the headers, the text) of what a form was answered with."""
        return self.ask("POST", path, urlencode(form), **{"hx-request": "true"})[1:]


@contextmanager
def studio_process(folder, *options, state=None, **settings):
    """A visitor of a studio about a folder, while it runs; `state` is the state folder of its account."""
    typed = [sys.executable, "-m", "parley", "studio", str(folder), "--port", "0", *options]
    typed += [] if "--browser" in options else ["--no-browser"]
    environment = os.environ | ({} if state is None else {"PARLEY_STATE": str(state)}) | settings.pop("env", {})
    process = subprocess.Popen(
        typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **settings
    )
    with process:
        try:
            address = process.stdout.readline().strip()
            assert address, process.stderr.read()
            yield Visitor(process, address)
        finally:
            process.kill()
