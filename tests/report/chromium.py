"""A page in headless Chromium, driven over the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

__all__ = ["Page", "chromium_path", "open_page"]

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-quic",
    "--no-first-run", "--remote-debugging-port=0", "--disable-dev-shm-usage",
)  # fmt: skip


def chromium_path() -> str | None:
    """Where Chromium is, or `None`."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One tab. `problems` gathers console errors, uncaught exceptions and requests to the network."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.problems: list[str] = []
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and wait for its result."""
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer = await asyncio.wait_for(self._waiting[number], 60)
        assert "error" not in answer, answer
        return dict(answer["result"])

    async def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited when it is a promise."""
        answer = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def open(self, path: Path) -> None:
        """Open a file and wait until its charts are drawn."""
        self._loaded.clear()
        await self.send("Page.navigate", url=path.as_uri())
        await asyncio.wait_for(self._loaded.wait(), 60)
        await self.run("""new Promise(done => {
            const ready = () => document.documentElement.dataset.charts === "drawn" && window.Plotly;
            const look = () => ready() ? done() : setTimeout(look, 20);
            look();
        })""")

    async def screenshot(self) -> bytes:
        """A picture of the whole page, as PNG."""
        shot = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    async def close(self) -> None:
        """Stop listening."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
            else:
                self._note(told["method"], told["params"])

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(params["entry"]))
        elif method == "Network.requestWillBeSent" and params["request"]["url"].startswith(("http", "ws")):
            self.problems.append(f"asked the network for {params['request']['url']}")


@contextlib.asynccontextmanager
async def open_page(folder: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> AsyncIterator[Page]:
    """A fresh Chromium with one tab; it is ended afterwards."""
    path = chromium_path()
    assert path is not None
    process = await asyncio.create_subprocess_exec(
        path, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        port = await asyncio.wait_for(_port(process.stderr), 60)
        drain = asyncio.create_task(process.stderr.read())
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tab = next(one for one in await answer.json() if one["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await page.send(f"{domain}.enable")
                await page.send(
                    "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
                )
                scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
                await page.send("Emulation.setEmulatedMedia", features=[scheme])
                yield page
                await page.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()
        await drain


async def _port(said: asyncio.StreamReader) -> int:
    async for line in said:
        if found := re.search(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line):
            return int(found[1])
    raise AssertionError("Chromium did not start")
