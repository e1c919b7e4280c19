"""WebSocket peers for the tests of whole programs: websocket.py serve PORT | websocket.py talk URL

The server says everything back, and ends with the code and reason that a text `close CODE REASON` names. The client prints a
JSON object of what it saw.
"""

import json
import os
import socket
import sys

from websockets.sync.client import connect
from websockets.sync.server import serve


def answer(connection):
    for message in connection:
        if isinstance(message, str) and message.startswith("close "):
            _, code, reason = message.split(" ", 2)
            connection.close(int(code), reason)
        else:
            connection.send(message)


def talk(url):
    large = os.urandom(1 << 20)
    with connect(url, subprotocols=None, max_size=None, compression="deflate") as connection:
        connection.send("héllo")
        text = connection.recv(timeout=20)
        connection.send(large)
        same = connection.recv(timeout=20) == large
        pong = connection.ping().wait(20)
        connection.send("close 4001 as asked")
        try:
            connection.recv(timeout=20)
        except Exception:  # the end is what is looked at
            pass
        frame = connection.protocol.close_rcvd
        return {"text": text, "large": same, "pong": pong, "code": frame.code, "reason": frame.reason}


if sys.argv[1] == "serve":
    both = socket.create_server(("::", int(sys.argv[2])), family=socket.AF_INET6, dualstack_ipv6=True)
    with serve(answer, sock=both, max_size=None) as server:
        print("listening", flush=True)
        server.serve_forever()
else:
    print(json.dumps(talk(sys.argv[2])))
