"""The server of the dashboard: its socket, the link with the token, the browser, and the end."""

from __future__ import annotations

import errno
import os
import socket
import sys
import tempfile
import threading
import webbrowser
from pathlib import Path

import uvicorn

from spreeze.errors import ConfigError
from spreeze.web.app import make_app
from spreeze.web.guard import make_token

LEAVE_WITHIN_S = 1  # for answers under way when Ctrl-C comes


def serve(folder: Path, host: str, port: int, open_browser: bool) -> None:
    """Until Ctrl-C or SIGTERM. Prints the link on stdout; everything else goes to stderr."""
    token = make_token()
    with listen(host, port) as listening:
        link = f"http://{in_link(host)}:{listening.getsockname()[1]}/#token={token}"
        app = make_app(folder, token, (host, socket.gethostname()))
        print(link, flush=True)
        print(f"runs in {folder.absolute()}; token: {token}; Ctrl-C ends", file=sys.stderr, flush=True)
        if open_browser:
            threading.Thread(target=show, args=[link], daemon=True).start()
        config = uvicorn.Config(
            app,
            log_level="error",
            access_log=False,
            lifespan="off",
            proxy_headers=False,  # who asks is who has connected
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=LEAVE_WITHIN_S,
        )
        uvicorn.Server(config).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        where = "127.0.0.1 is this machine, 0.0.0.0 all its networks"
        raise ConfigError(f"--host {host}: {error.strerror}; {where}") from None
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(f"--port {port}: in use on {host}; --port 0 takes any that is free") from None
        raise ConfigError(f"--host {host} --port {port}: {error.strerror}") from None
    return listening


def in_link(host: str) -> str:
    """A host as a browser can use it: 'all networks' is no address to go to."""
    if host == "0.0.0.0":
        return _own_address()
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host


def _own_address() -> str:
    """The address by which others reach this machine; asking the routing table sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def show(link: str) -> None:
    """Opens the browser by way of a file that only this user can read: a program's arguments are read by everybody."""
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="spreeze-", delete=False) as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={link}"><a href="{link}">Spreeze</a>')
    webbrowser.open(Path(file.name).as_uri())
    threading.Timer(10.0, os.unlink, [file.name]).start()
