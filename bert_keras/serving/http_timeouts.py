"""Closes HTTP connections whose client stops sending its request or reading the response."""

import asyncio
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the client to send the headers of a request, a few hundred bytes
BODY_SECONDS = 30.0  # for the client to send the rest of a body after its request was rejected
RESPONSE_SECONDS = 60  # for the client to read a response, before the connection is aborted


class TimeoutProtocol(H11Protocol):
    """uvicorn's HTTP protocol with additional timeouts.

    It limits the time to wait for the headers of a request, for the rest of a body that is no
    longer needed, and for a client that does not read its response.
    """

    _receive_timer: asyncio.TimerHandle | None = None
    _send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._start_receive_timer(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        before = self.conn.their_state
        super().data_received(data)
        if self.conn.their_state is not before:
            self._receive_timer = _cancelled(self._receive_timer)  # the expected data has arrived
        if self.conn.their_state is h11.IDLE:
            self._start_receive_timer(HEAD_SECONDS)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._start_receive_timer(BODY_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(RESPONSE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._send_timer = _cancelled(self._send_timer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receive_timer = _cancelled(self._receive_timer)
        self._send_timer = _cancelled(self._send_timer)
        super().connection_lost(exc)

    def _start_receive_timer(self, seconds: float) -> None:
        if self._receive_timer is None and not self.transport.is_closing():
            self._receive_timer = self.loop.call_later(seconds, self.transport.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer:
        timer.cancel()


def set_socket_options(listener: socket.socket) -> None:
    """Set the socket options that the connections of a listening socket inherit."""
    # asyncio sets TCP_NODELAY only on sockets with an explicit protocol number. Without it, each
    # response takes 40 ms longer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, RESPONSE_SECONDS * 1000)
