"""HEAD is answered as GET is, without what would be sent after its headers."""

import asyncio

from starlette.types import Message, Receive, Scope, Send

from services.gateway.middleware import HeadAsGet

PARTS = 100


def test_a_stream_is_ended_with_its_first_part() -> None:
    """Whoever asks for the head of a stream would hold one of those that there are."""
    made, sent = [], []

    async def stream(scope: Scope, _receive: Receive, send: Send) -> None:
        assert scope["method"] == "GET"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(PARTS):
            made.append(number)
            await send({"type": "http.response.body", "body": b"x", "more_body": True})

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "path": "/"}
    asyncio.run(HeadAsGet(stream)(scope, receive, send))
    assert made == [0]
    assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
    assert sent[1] == {"type": "http.response.body", "body": b"", "more_body": False}
