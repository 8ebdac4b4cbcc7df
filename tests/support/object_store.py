"""A small S3 server on loopback: buckets in memory, and of the protocol what reading takes."""

import hashlib
import os
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock
from urllib.parse import parse_qs, quote, unquote, urlsplit
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

from consortium import free_port

SECRET = "planted/secret+key"
_SIGNED = {  # in form: moto reads who signed, not whether the signature is right
    "Content-Type": "binary/octet-stream",
    "Authorization": "AWS4-HMAC-SHA256 Credential=testing/20261118/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body at once

    def log_message(self, *arguments):
        pass

    def _reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def do_GET(self):
        place = urlsplit(self.path)
        bucket, _, key = unquote(place.path).lstrip("/").partition("/")
        asked = {name: values[0] for name, values in parse_qs(place.query).items()}
        if not key:
            return self._reply(200, self._listing(asked.get("prefix", "")), Content_Type="application/xml")
        found = self.server.objects.get(f"{bucket}/{key}")
        if found is None:
            return self._reply(404)
        about = {"ETag": f'"{hashlib.md5(found).hexdigest()}"', "Last-Modified": "Tue, 17 Nov 2026 12:00:00 GMT"}
        first, last = 0, len(found) - 1
        if "Range" in self.headers:
            first, last = (int(end) for end in self.headers["Range"].removeprefix("bytes=").split("-"))
            about["Content-Range"] = f"bytes {first}-{min(last, len(found) - 1)}/{len(found)}"
        return self._reply(206 if "Range" in self.headers else 200, found[first : last + 1], **about)

    do_HEAD = do_GET  # noqa: N815

    def _listing(self, prefix):
        bucket = urlsplit(self.path).path.strip("/")
        found = {k.partition("/")[2]: v for k, v in sorted(self.server.objects.items()) if k.startswith(f"{bucket}/")}
        found = {key: body for key, body in found.items() if key.startswith(prefix)}
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size>"
            "<LastModified>2026-11-17T12:00:00.000Z</LastModified></Contents>"
            for key, body in found.items()
        )
        count = f"<KeyCount>{len(found)}</KeyCount><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult>{count}{rows}</ListBucketResult>".encode()


class Store:
    """What tests do with a server: put files there."""

    def __init__(self, endpoint, objects=None):
        self.endpoint, self.objects = endpoint, objects

    def put(self, path, content):
        """`path`: bucket/key."""
        if self.objects is not None:
            self.objects[path] = content
            return
        for place, body in ((path.partition("/")[0], b""), (path, content)):
            request = Request(f"{self.endpoint}/{quote(place)}", body, _SIGNED, method="PUT")
            urlopen(request, timeout=10).close()

    def put_folder(self, path, folder):
        for file in Path(folder).rglob("*"):
            if file.is_file():
                self.put(f"{path}/{file.relative_to(folder).as_posix()}", file.read_bytes())


@contextmanager
def environment(endpoint):
    """Credentials and endpoint as an owner's machine has them."""
    known = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with mock.patch.dict(os.environ, known):
        yield


@contextmanager
def small_server():
    """This file's own server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.objects = {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        with environment(endpoint):
            yield Store(endpoint, server.objects)
    finally:
        server.shutdown()
        server.server_close()


def moto_command():
    """moto's server (pip install 'moto[server]'); None where it is missing."""
    return shutil.which("moto_server")


@contextmanager
def moto_server():
    """moto, in a process of its own."""
    port = free_port()
    process = subprocess.Popen(
        [moto_command(), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise OSError("moto_server does not start: pip install 'moto[server]'")
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        with environment(f"http://127.0.0.1:{port}"):
            yield Store(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
