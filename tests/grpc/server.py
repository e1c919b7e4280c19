"""A gRPC server for the tests of whole programs: server.py [ADDRESS]. Prints its port; methods take and give plain bytes."""

import sys
from concurrent import futures

import grpc

CODES = {code.value[0]: code for code in grpc.StatusCode}


def unary(request, context):
    """Echoes the message and the metadata whose keys begin with x-."""
    for key, value in context.invocation_metadata():
        if key.startswith("x-"):
            context.send_initial_metadata(((key, value),))
            context.set_trailing_metadata(((key, value),))
    return request


def fail(request, context):
    """`CODE SIZE`: ends with that status and SIZE bytes of trailing metadata, before any message."""
    code, size = (int(word) for word in request.split())
    if size:
        context.set_trailing_metadata((("x-long", "t" * size),))
    context.abort(CODES[code], "as asked: ä%")


def download(request, context):
    """`COUNT CODE`: sends COUNT messages, then ends with that status (0 is OK)."""
    count, code = (int(word) for word in request.split())
    for index in range(count):
        yield b"message %d" % index
    if code:
        context.abort(CODES[code], "after the messages")


def upload(requests, context):
    """Counts messages and their bytes."""
    sizes = [len(request) for request in requests]
    return b"%d messages, %d bytes" % (len(sizes), sum(sizes))


def chat(requests, context):
    """Echoes each message as it comes."""
    yield from requests


def wait(request, context):
    """Waits until the caller gives up."""
    done = futures.Future()
    context.add_callback(lambda: done.set_result(None))
    done.result(timeout=60)
    return b""


METHODS = {
    "Unary": grpc.unary_unary_rpc_method_handler(unary),
    "Fail": grpc.unary_unary_rpc_method_handler(fail),
    "Download": grpc.unary_stream_rpc_method_handler(download),
    "Upload": grpc.stream_unary_rpc_method_handler(upload),
    "Chat": grpc.stream_stream_rpc_method_handler(chat),
    "Wait": grpc.unary_unary_rpc_method_handler(wait),
}


def main():
    options = [("grpc.max_metadata_size", 128 * 1024), ("grpc.absolute_max_metadata_size", 256 * 1024)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("tidegate.Test", METHODS),))
    port = server.add_insecure_port(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:0")
    server.start()
    print("listening on port", port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    sys.exit(main())
