"""Publishes a scope of 1,000 messages, three of them bad, and checks every verdict.

    python client.py [127.0.0.1:7077 [destination]]

Exits with 1 if a verdict is not the one that the message deserves.
"""

import sys

import grpc

import gateway_pb2 as pb
import gateway_pb2_grpc

SCOPE = 1
ROWS = 1_000
INVALID = pb.FAILURE_CLASS_INVALID


def messages(destination):
    """Each row's destination, message, and what must become of it (None: confirmed)."""
    for row in range(ROWS):
        message = pb.Message(body=b"message %d" % row, key=b"customer %d" % (row % 16))
        if row == 100:
            yield "", message, INVALID  # no destination
        elif row == 500:
            message.delay_ms = 60_000  # the store cannot delay
            yield destination, message, INVALID
        elif row == 900:
            message.headers.add(name="", string_value="x")  # a header without a name
            yield destination, message, INVALID
        else:
            yield destination, message, None


def frames(rows):
    """What the client writes: one frame for each run of rows with the same destination."""
    yield pb.ClientFrame(hello=pb.Hello(client="python example 1.0"))
    yield pb.ClientFrame(open_scope=pb.OpenScope(scope=SCOPE))
    frame = None
    for destination, message, _ in rows:
        if frame is None or frame.destination != destination:
            if frame is not None:
                yield pb.ClientFrame(messages=frame)
            frame = pb.Messages(scope=SCOPE, destination=destination)
        frame.messages.append(message)
    yield pb.ClientFrame(messages=frame)
    yield pb.ClientFrame(close_scope=pb.CloseScope(scope=SCOPE))


def main(address="127.0.0.1:7077", destination="orders"):
    rows = list(messages(destination))
    verdicts, done = {}, None
    with grpc.insecure_channel(address) as channel:
        for frame in gateway_pb2_grpc.GatewayStub(channel).Stream(frames(rows)):
            for run in frame.results.confirmed:
                verdicts.update((run.first + n, None) for n in range(run.count))
            for failed in (*frame.results.failed, *frame.results.unknown):
                verdicts[failed.row] = getattr(failed.failure, "class")
                print(f"row {failed.row}: {failed.failure.reason}")
            if frame.HasField("scope_done"):
                done = frame.scope_done
    wrong = [row for row in range(ROWS) if verdicts.get(row, "none") != rows[row][2]]
    print(f"{done.confirmed} confirmed, {done.failed} failed, {done.unknown} unknown")
    if wrong or (done.confirmed, done.failed, done.unknown) != (ROWS - 3, 3, 0):
        sys.exit(f"not as expected: rows {wrong}")


if __name__ == "__main__":
    main(*sys.argv[1:])
